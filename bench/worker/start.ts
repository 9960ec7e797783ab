// A pawl worker whose parent runs in a separate process, and what it reports about its processes.
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { SuperviseOptions, SupervisorEvent } from 'pawl/worker'

/** What it reports about its processes, and when. */
export type WorkerEvent = (SupervisorEvent | { event: 'serving' }) & { at: number }

/** A running worker. */
export interface BenchWorker {
  /** When its first process was started, by the clock of `Date.now`. */
  startedAt: number
  events: WorkerEvent[]
  /** Pids of the processes that run now. */
  pids(): { parent: number; orchestrator: number; executors: number[] }
  /** Resolves when all its processes serve. */
  serving(): Promise<void>
  /** Kills all its processes at once. */
  kill(): void
  stop(): Promise<void>
}

const SCRIPT = fileURLToPath(new URL('supervising.mjs', import.meta.url))
const LOOK_EVERY_MS = 20

/** Starts one, and resolves when it serves. */
export async function startWorker(options: SuperviseOptions & { processes: number }): Promise<BenchWorker> {
  const startedAt = Date.now()
  const parent = fork(SCRIPT, [], { execArgv: [] })
  const events: WorkerEvent[] = []
  parent.on('message', (event: WorkerEvent) => void events.push(event))
  parent.send(options)
  const alive = new Set<number>()
  const ready = new Set<number>()
  let orchestrator: number | undefined
  let isServing = false
  parent.on('message', (event: WorkerEvent) => {
    switch (event.event) {
      case 'worker_started':
        return void alive.add(event.pid)
      case 'worker_ready':
        return void ready.add(event.pid)
      case 'worker_died':
        return void (alive.delete(event.pid), ready.delete(event.pid))
      case 'orchestrator_started':
        orchestrator = event.pid
        return
      case 'orchestrator_ready':
      case 'serving':
        isServing = true
        return
      case 'orchestrator_died':
        isServing = false
        return
      default:
        return
    }
  })
  const worker: BenchWorker = {
    startedAt,
    events,
    pids: () => ({ parent: parent.pid ?? 0, orchestrator: orchestrator ?? 0, executors: [...alive] }),
    async serving() {
      while (!isServing || ready.size < options.processes) {
        if (parent.exitCode !== null) throw new Error('The worker ended before it served: see its error above.')
        await sleep(LOOK_EVERY_MS)
      }
    },
    kill() {
      const { executors } = worker.pids()
      for (const pid of [parent.pid, orchestrator, ...executors]) if (pid !== undefined) process.kill(pid, 'SIGKILL')
    },
    async stop() {
      if (parent.exitCode !== null || parent.signalCode !== null) return
      const exit = once(parent, 'exit')
      parent.disconnect()
      await exit
    },
  }
  await worker.serving()
  return worker
}
