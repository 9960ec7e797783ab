// The faults of a random round: draws them from the seed, and injects them.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Stack } from '../../local/index.ts'
import type { MarkReader } from './marks.ts'
import type { Random } from './random.ts'
import type { TroubleKind } from './types.ts'
import { until } from './until.ts'
import type { CrashWorkers } from './workers.ts'
import { counted } from '../../session/counted.ts'

/** A fault, as drawn. It occurs `delayMs` after `afterMarks` boundaries have been reached. */
export interface Trouble {
  kind: TroubleKind
  afterMarks: number
  delayMs: number
  /** How long a process is frozen, or a server is down. */
  lastsMs: number
  /** Selects the process; in [0, 1). */
  choice: number
}

/** pawl gives up on a call at its fifth death. Bad luck must not look like a broken agent. */
const MAX_TROUBLES = 3
/** This is longer than any heartbeat timeout and the timeout of a workflow task. */
const PAUSE_MS = [4_000, 7_000] as const
const DOWN_MS = [300, 2_500] as const
const LOOK_MS = 5
/** How long a supervisor may take to run again with a worker process that is starting. */
const RESTART_MS = 60_000

/** The length of a run without kills. */
export interface Pace {
  /** How many boundaries it reaches. */
  marks: number
  ms: number
}

/** Draws a round's faults. One is of kind `first` and comes early enough to hit the conversation. */
export function drawTroubles(random: Random, kinds: readonly TroubleKind[], first: TroubleKind, { marks, ms }: Pace): Trouble[] {
  const between = Math.ceil(ms / Math.max(1, marks))
  const draw = (kind: TroubleKind, latest: number): Trouble => {
    const [min, max] = kind.startsWith('pause') ? PAUSE_MS : DOWN_MS
    return {
      kind,
      afterMarks: random.integer(0, Math.max(0, latest)),
      delayMs: random.integer(0, between),
      lastsMs: random.integer(min, max),
      choice: random.fraction(),
    }
  }
  const more = Array.from({ length: random.integer(0, MAX_TROUBLES - 1) }, () => draw(random.pick(kinds), marks - 1))
  return [draw(first, Math.floor(marks / 2)), ...more].toSorted((a, b) => a.afterMarks - b.afterMarks)
}

/** Faults in progress. */
export interface Troubles {
  /** Starts no new faults. Resolves with the faults that occurred, once everything it stopped is running again. */
  end(): Promise<string[]>
}

/** Injects the faults as the conversation proceeds. */
export function makeTroubles(
  troubles: readonly Trouble[],
  on: { marks: MarkReader; conversation: number; group: CrashWorkers['group']; stack: Stack },
): Troubles {
  const over = new AbortController()
  const done: string[] = []
  const lasting: Promise<void>[] = []
  /** Only one fault at a time may stop and start a server. */
  const servers = new Map<TroubleKind, Promise<void>>()

  const kill = (kind: 'kill' | 'supervisor' | 'both', choice: number): string | undefined => {
    const { supervisor, workers } = on.group()
    if (kind === 'kill') {
      const worker = workers[Math.floor(choice * workers.length)]
      return signal(worker, 'SIGKILL') ? `kill ${worker}` : undefined
    }
    // The supervisor first, because it could report the deaths of its workers.
    if (!signal(supervisor, 'SIGKILL')) return undefined
    if (kind === 'supervisor') return `supervisor ${supervisor}`
    for (const worker of workers) signal(worker, 'SIGKILL')
    return `both ${supervisor} and its ${counted(workers.length, 'process', 'processes')}`
  }

  const stop = async (kind: 'pause' | 'pause_supervisor', { choice, lastsMs }: Trouble, at: string): Promise<void> => {
    const { supervisor, workers } = on.group()
    const pid = kind === 'pause' ? workers[Math.floor(choice * workers.length)] : supervisor
    if (!signal(pid, 'SIGSTOP')) return
    done.push(`${kind} ${pid} for ${seconds(lastsMs)}, ${at}`)
    await sleep(lastsMs)
    // The supervisor may have killed a frozen worker.
    signal(pid, 'SIGCONT')
  }

  const restart = (kind: 'postgres' | 'temporal', lastsMs: number, at: string): Promise<void> => {
    const restarted = (servers.get(kind) ?? Promise.resolve()).then(async () => {
      const server = on.stack[kind]
      done.push(`${kind} down for ${seconds(lastsMs)}, ${at}`)
      await server.stop('crash')
      await sleep(lastsMs)
      await server.start()
    })
    servers.set(kind, restarted)
    return restarted
  }

  const make = async (trouble: Trouble, reached: number): Promise<void> => {
    const { kind, choice, lastsMs } = trouble
    const at = `after boundary ${reached}`
    // After a supervisor dies, there may be no process for a moment.
    if (kind !== 'postgres' && kind !== 'temporal') await until(() => over.signal.aborted || isRunning(on.group()), RESTART_MS)
    if (over.signal.aborted) return
    switch (kind) {
      case 'kill':
      case 'supervisor':
      case 'both': {
        const killed = kill(kind, choice)
        if (killed !== undefined) done.push(`${killed}, ${at}`)
        return
      }
      case 'pause':
      case 'pause_supervisor':
        return stop(kind, trouble, at)
      case 'postgres':
      case 'temporal':
        return restart(kind, lastsMs, at)
    }
  }

  const follow = async (): Promise<void> => {
    for (const trouble of troubles) {
      let reached = 0
      for (;;) {
        reached = (await on.marks.marks(on.conversation)).length
        if (reached >= trouble.afterMarks) break
        await sleep(LOOK_MS, undefined, { signal: over.signal })
      }
      await sleep(trouble.delayMs, undefined, { signal: over.signal })
      lasting.push(make(trouble, reached))
    }
  }
  const following = follow().catch((error: unknown) => {
    if (!over.signal.aborted) throw error
  })
  following.catch(() => undefined)

  return {
    async end() {
      over.abort()
      await following
      await Promise.all(lasting)
      return done
    },
  }
}

/** Whether the death of a call may stay unconfirmed until its timeout after this fault. */
export function hitsSupervisor({ kind }: Trouble): boolean {
  return kind === 'supervisor' || kind === 'pause_supervisor' || kind === 'both'
}

function isRunning({ supervisor, workers }: ReturnType<CrashWorkers['group']>): boolean {
  return supervisor !== undefined && workers.length > 0
}

const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`

/** Sends a signal; returns whether the process existed. */
function signal(pid: number | undefined, name: NodeJS.Signals): boolean {
  if (pid === undefined) return false
  try {
    return process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
    throw error
  }
}
