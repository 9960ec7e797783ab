// The executors of a worker, as their parent keeps them running: N of the newest code, each replaced when it dies.
import type { ChildProcess } from 'node:child_process'
import { WorkerError } from '../errors.ts'
import type { ExecutorToParent, KillReason } from '../protocol.ts'
import { startBackoff } from './backoff.ts'
import { tell } from './processes.ts'

/** A moment's pause: a process that boots takes the CPU that the resumption of what was held needs. */
const RESPAWN_MS = 150
/** How long a module may take to load, and its services to be made. */
const LOAD_MS = 60_000
/** A module does not end its process by these. */
const FROM_OUTSIDE = new Set(['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGHUP'])

/** What keeps executors. */
export interface ExecutorsOptions {
  /** For error messages. */
  module: string
  count: number
  /** Starts the process of one. @throws WorkerError `no_typescript_loader`. */
  fork(id: number): ChildProcess
  onStarted(pid: number): void
  /** Its death is certain. */
  onExit(executor: { id: number; pid: number; code: number | null; signal: string | null }): void
  /** It could not load the module, or make its services. */
  onFailed(error: WorkerError): void
}

/** The executors. */
export interface Executors {
  /** Starts the first ones. @throws WorkerError `no_typescript_loader`. */
  start(): void
  /** Where the newest orchestrator is. */
  connectTo(path: string): void
  kill(id: number, why?: KillReason): void
  /** The orchestrator says that it can be given jobs. */
  ready(id: number): number | undefined
  /** Starts as many of the newest code; resolves with the ids of the old ones when the new ones are ready, and rejects if one cannot load. */
  replace(): Promise<number[]>
  /** It holds nothing any more, and ends. */
  release(id: number): void
  /** Ends all; no more are started. */
  shutdown(how: 'SIGKILL' | 'released'): void
  pids(): number[]
  size(): number
}

interface Executor {
  id: number
  pid: number
  process: ChildProcess
  generation: number
  /** Whether it ends on purpose: it is not replaced. */
  isReleased: boolean
  isReady: boolean
  /** Whether it said how its start ended. */
  hasStarted: boolean
}

/** Keeps executors; none is started yet. */
export function keepExecutors(options: ExecutorsOptions): Executors {
  const running = new Map<number, Executor>()
  const backoff = startBackoff(RESPAWN_MS)
  let generation = 1
  let lastId = 0
  let path: string | undefined
  let isStopping = false
  let replacing: { generation: number; settle(error?: WorkerError): void } | undefined

  function spawn(of: number): void {
    const id = ++lastId
    const child = options.fork(id)
    const { pid } = child
    if (pid === undefined) {
      child.once('error', (cause) => {
        failed(of, new WorkerError('worker_start_failed', 'An executor could not be started. pawl tries again.', { cause }))
        fillLater(of)
      })
      return
    }
    const one: Executor = { id, pid, process: child, generation: of, isReleased: false, isReady: false, hasStarted: false }
    running.set(id, one)
    const hangs = setTimeout(() => {
      one.hasStarted = true
      failed(of, new WorkerError('module_hangs', `${options.module} did not load within ${LOAD_MS / 1_000} s. Fix what it waits for.`))
      child.kill('SIGKILL')
    }, LOAD_MS)
    child.on('message', (message: ExecutorToParent) => {
      if (message?.pawl === 'loaded' || message?.pawl === 'start_failed') one.hasStarted = true
      if (message?.pawl === 'loaded') clearTimeout(hangs)
      if (message?.pawl === 'start_failed') failed(of, new WorkerError(message.code, message.message))
    })
    // Told by the exit event, too.
    child.on('error', () => undefined)
    child.once('exit', (code, signal) => {
      clearTimeout(hangs)
      // Its last message may be read after its end.
      if (child.connected) child.once('disconnect', () => checkStart(one, code, signal))
      else checkStart(one, code, signal)
      exited(one, code, signal)
    })
    if (path !== undefined) tell(child, { pawl: 'connect', path })
    options.onStarted(pid)
  }

  function checkStart({ hasStarted, generation: of }: Executor, code: number | null, signal: string | null): void {
    if (hasStarted || isStopping || FROM_OUTSIDE.has(signal ?? '')) return
    const how = signal ?? `exit code ${code}`
    failed(of, new WorkerError('module_failed', `${options.module} ended its process while it was loaded (${how}). Fix what ends it.`))
  }

  function failed(of: number, error: WorkerError): void {
    if (replacing?.generation === of) replacing.settle(error)
    else options.onFailed(error)
  }

  function exited(one: Executor, code: number | null, signal: string | null): void {
    running.delete(one.id)
    options.onExit({ id: one.id, pid: one.pid, code, signal })
    if (!one.isReleased && one.generation === generation) fillLater(generation)
  }

  function fillLater(of: number): void {
    if (!isStopping) setTimeout(() => fill(of), backoff.next())
  }

  /** Starts what is missing of a generation, if it is the one that serves. */
  function fill(of: number): void {
    if (isStopping || of !== generation) return
    const there = [...running.values()].filter((one) => one.generation === of).length
    for (let missing = options.count - there; missing > 0; missing--) spawn(of)
  }

  function release(one: Executor): void {
    one.isReleased = true
    tell(one.process, { pawl: 'shutdown' })
  }

  return {
    start() {
      fill(generation)
    },
    connectTo(newest) {
      path = newest
      for (const { process } of running.values()) tell(process, { pawl: 'connect', path: newest })
    },
    kill(id) {
      running.get(id)?.process.kill('SIGKILL')
    },
    ready(id) {
      const one = running.get(id)
      if (!one) return undefined
      backoff.served()
      const isNew = !one.isReady
      one.isReady = true
      const ofNewest = [...running.values()].filter((other) => other.generation === generation && other.isReady)
      if (replacing && ofNewest.length >= options.count) replacing.settle()
      return isNew ? one.pid : undefined
    },
    replace() {
      replacing?.settle(new WorkerError('reload_superseded', 'The module was loaded anew before these executors were ready.'))
      const before = generation
      generation += 1
      const mine = generation
      return new Promise((resolve, reject) => {
        replacing = {
          generation: mine,
          settle(error) {
            replacing = undefined
            const [failedOnes, oldOnes] = [
              [...running.values()].filter((one) => one.generation === mine),
              [...running.values()].filter((one) => one.generation !== mine),
            ]
            if (!error) return resolve(oldOnes.map(({ id }) => id))
            if (generation === mine) generation = before
            for (const one of failedOnes) {
              one.isReleased = true
              one.process.kill('SIGKILL')
            }
            // Those of the old code that died meanwhile.
            fill(generation)
            reject(error)
          },
        }
        fill(mine)
      })
    },
    release(id) {
      const one = running.get(id)
      if (one) release(one)
    },
    shutdown(how) {
      isStopping = true
      for (const one of running.values()) {
        if (how === 'released') release(one)
        else one.process.kill('SIGKILL')
      }
    },
    pids: () => [...running.values()].map(({ pid }) => pid),
    size: () => running.size,
  }
}
