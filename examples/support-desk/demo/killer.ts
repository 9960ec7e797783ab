// Kills worker processes with SIGKILL: at moments drawn from the seed, half of them in the middle of a request to the shop.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Supervisor, SupervisorEvent } from 'pawl/worker'
import type { Progress } from '../shop/progress.ts'
import { integer, pick, randomFrom, shuffled } from '../world/random.ts'
import type { Pacing } from './pacing.ts'
import type { RunningShop } from './shop-process.ts'

/** One kill that was made. */
export interface Kill {
  pid: number
  /** The request to the shop that the process was in the middle of, if it was aimed at one. */
  aimedAt: Progress | undefined
}

export interface KillerOptions {
  kills: number
  seed: number
  supervisor: Supervisor
  processes: number
  shop: RunningShop
  pacing: Pacing
  onKill(kill: Kill): void
}

export interface Killer {
  /** To be called with every event of the supervisor. */
  onSupervisor(event: SupervisorEvent): void
  /** To be called when a call has ended, and when a session has nothing more to do. */
  callEnded(sessionId: string, call: string): void
  sessionEnded(sessionId: string): void
  /** Kills that the supervisor has confirmed. */
  made(): number
  /** No more kills from now on. */
  stop(): Promise<void>
}

/** pawl rightly gives up on a call at its fifth death; bad luck must not cause that. */
const SPARE_AFTER_DEATHS = 3
/** Milliseconds to wait for a killed process to be replaced before one is killed without a spare. */
const SPARE_MS = 20_000
const TICK_MS = 10
/** This many kills that are due and not yet made count as far behind. */
const FAR_BEHIND = 3
/** The shop is not held. */
const RELEASED = 'released'

/** The call that a process held: verification of a call (`verify:…`) belongs to that call. */
export function callOf(held: string): string {
  return held.replace(/^verify:/, '')
}

/** Which worker process a request came from, as its User-Agent says. */
function pidOf(progress: Progress): number {
  return Number(/\(pid (\d+)\)/.exec(progress.caller ?? '')?.[1])
}

/** Starts killing. */
export async function startKiller(options: KillerOptions): Promise<Killer> {
  const { supervisor, shop, pacing, kills } = options
  const random = randomFrom(options.seed, 'kills')
  const stopping = new AbortController()
  const ready = new Set<number>()
  const killed = new Set<number>()
  const deaths = new Map<string, number>()
  const requests = new Map<number, Progress>()
  let made = 0
  let held = RELEASED
  let failure: unknown

  const behind = (): number => Math.min(pacing.due(), kills) - made
  const victims = (): number[] => supervisor.pids().filter((pid) => ready.has(pid))
  const spared = (): string[] => [...deaths].flatMap(([call, times]) => (times >= SPARE_AFTER_DEATHS ? [call] : []))
  const hasSpare = (): boolean => victims().length >= options.processes

  await shop.follow((progress) => {
    if (progress.at === 'answered') requests.delete(progress.request)
    else requests.set(progress.request, progress)
  })

  /** Holds the shop whenever the work would otherwise get ahead of the kills. */
  const pace = async (): Promise<void> => {
    const hold = behind() > 1 || (behind() === 1 && !hasSpare())
    const except = spared().map((call) => `${call}/`)
    const wanted = hold ? except.join(' ') : RELEASED
    if (wanted === held) return
    held = wanted
    await (hold ? shop.hold(except) : shop.release())
  }

  const until = async (condition: () => boolean, ms = Number.POSITIVE_INFINITY): Promise<boolean> => {
    for (const end = Date.now() + ms; !condition(); await sleep(TICK_MS, undefined, { signal: stopping.signal })) {
      if (Date.now() > end) return false
      await pace()
    }
    return true
  }

  const aim = (): { pid: number; aimedAt: Progress } | undefined => {
    const targets = [...requests.values()].flatMap((progress) => {
      const pid = pidOf(progress)
      return progress.at === 'done' && victims().includes(pid) ? [{ pid, aimedAt: progress }] : []
    })
    const writes = targets.filter(({ aimedAt }) => aimedAt.method !== 'GET')
    return targets.length > 0 ? pick(random, writes.length > 0 ? writes : targets) : undefined
  }

  const anyVictim = (): Kill | undefined => {
    const pids = shuffled(random, victims())
    const busy = (pid: number): number => [...requests.values()].filter((progress) => pidOf(progress) === pid).length
    // Many kills for little work: the calls in progress can survive only so many deaths, so the least busy process has to go
    const pid = behind() > FAR_BEHIND ? pids.sort((a, b) => busy(a) - busy(b))[0] : pids[0]
    return pid === undefined ? undefined : { pid, aimedAt: undefined }
  }

  const killOne = async (): Promise<void> => {
    await until(() => behind() > 0 && pacing.inWork() > 0)
    await until(hasSpare, SPARE_MS)
    const moment = Date.now() + integer(random, 50, 400)
    const aimed = random() < 0.5 && behind() <= FAR_BEHIND
    await until(() => Date.now() >= moment && victims().length > 0 && pacing.inWork() > 0 && spared().length === 0)
    if (aimed) await until(() => aim() !== undefined || victims().length === 0, 1_000)
    const target = (aimed ? aim() : undefined) ?? anyVictim()
    // The only process left may have died by itself in the meantime: the next round looks again
    if (!target || !kill(target.pid)) return
    options.onKill(target)
    await until(() => !ready.has(target.pid))
    for (const [id, progress] of requests) if (pidOf(progress) === target.pid) requests.delete(id)
  }

  const kill = (pid: number): boolean => {
    killed.add(pid)
    try {
      return process.kill(pid, 'SIGKILL')
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false
      throw error
    }
  }

  const killAll = async (): Promise<void> => {
    while (made < kills) await killOne()
    await pace()
  }
  const killing = killAll()
    .catch((error: unknown) => {
      if (!stopping.signal.aborted) failure = error
    })
    .finally(() => void shop.release())

  return {
    onSupervisor(event) {
      if (event.event === 'worker_ready') ready.add(event.pid)
      if (event.event !== 'worker_died') return
      ready.delete(event.pid)
      if (killed.has(event.pid)) made += 1
      for (const { sessionId, call } of event.calls) {
        const key = `${sessionId}/${callOf(call)}`
        deaths.set(key, (deaths.get(key) ?? 0) + 1)
      }
    },
    callEnded: (sessionId, call) => void deaths.delete(`${sessionId}/${call}`),
    sessionEnded(sessionId) {
      for (const key of deaths.keys()) if (key.startsWith(`${sessionId}/`)) deaths.delete(key)
    },
    made: () => made,
    async stop() {
      stopping.abort()
      await killing
      if (failure !== undefined) throw failure
    },
  }
}
