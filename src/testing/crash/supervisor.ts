// Keeps a supervisor running in its own process, and replaces one that dies, like an operator's process manager.
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { FromSupervisor, SupervisingInput } from './worker/supervising.ts'

/** A supervisor that is kept running. */
export interface KeptSupervisor {
  /** Its pid; undefined after one has died, until the next one starts. */
  pid(): number | undefined
  /** Its processes: executors and their orchestrator. */
  workers(): number[]
  /** How many executors serve; 0 while no orchestrator is running. */
  serving(): number
  /** Why the first one cannot serve, once this is known. */
  failure(): string | undefined
  /** Stops it; resolves when it and its processes have finished their work and exited. */
  stop(): Promise<void>
  /** Kills it and its processes, when this process exits. */
  abandon(): void
}

/** One run of the supervisor: its process, its child processes by pid, and whether they serve. */
interface Life {
  process: ChildProcess
  executors: Map<number, { serves: boolean }>
  orchestrator?: { pid: number; serves: boolean }
}

/** The delay before a restart, as in systemd's default. The pause keeps a supervisor that cannot start from restarting in a tight loop. */
const START_AGAIN_MS = 100

/** Starts it. */
export function keepSupervisor(supervising: SupervisingInput): KeptSupervisor {
  let stopping = false
  let served = false
  let failure: string | undefined
  let life: Life | undefined = start()
  let next: NodeJS.Timeout | undefined

  function start(): Life {
    const process = forkSupervisor(supervising)
    const mine: Life = { process, executors: new Map() }
    process.on('message', (message: FromSupervisor) => {
      switch (message.type) {
        case 'failed':
          if (!served) failure ??= message.message
          return
        case 'worker_started':
        case 'worker_ready':
          mine.executors.set(message.pid, { serves: message.type === 'worker_ready' })
          served ||= message.type === 'worker_ready'
          return
        case 'worker_died':
          mine.executors.delete(message.pid)
          return
        case 'orchestrator_started':
        case 'orchestrator_ready':
          mine.orchestrator = { pid: message.pid, serves: message.type === 'orchestrator_ready' }
          return
        case 'orchestrator_died':
          if (mine.orchestrator?.pid === message.pid) delete mine.orchestrator
      }
    })
    process.once('error', (error) => {
      if (!served) failure ??= error.message
    })
    process.once('exit', (code, signal) => {
      life = undefined
      if (!served) failure ??= `the supervisor exited with ${signal ?? code}`
      if (!stopping) next = setTimeout(() => void (life = start()), START_AGAIN_MS)
    })
    return mine
  }

  const workersNow = (): number[] => [...(life?.executors.keys() ?? []), ...(life?.orchestrator ? [life.orchestrator.pid] : [])]
  return {
    pid: () => life?.process.pid,
    workers: workersNow,
    serving: () => (life?.orchestrator?.serves ? [...life.executors.values()].filter(({ serves }) => serves).length : 0),
    failure: () => failure,
    async stop() {
      stopping = true
      clearTimeout(next)
      if (!life) return
      const ended = once(life.process, 'exit')
      if (life.process.connected) life.process.send('stop', ignore)
      await ended
    },
    abandon() {
      stopping = true
      // Workers first: if the supervisor died first, they would finish their work.
      for (const pid of [...workersNow(), life?.process.pid]) if (pid !== undefined) kill(pid)
    },
  }
}

/** Its output goes to this process's stderr, for worker modules that print or fail. */
function forkSupervisor(supervising: SupervisingInput): ChildProcess {
  const script = new URL(`./worker/supervising${extname(import.meta.url)}`, import.meta.url)
  const watcher = new URL(`./worker/orchestrating${extname(import.meta.url)}`, import.meta.url)
  return fork(fileURLToPath(script), [], {
    env: { ...process.env, PAWL_CRASH_SUPERVISOR: JSON.stringify({ ...supervising, test: process.pid }) },
    // A supervisor passes its own Node options to its processes, so the orchestrator is watched, too.
    execArgv: [...process.execArgv.filter((arg) => !arg.startsWith('--inspect')), '--import', watcher.href],
    stdio: ['ignore', 2, 2, 'ipc'],
  })
}

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function ignore(): void {}
