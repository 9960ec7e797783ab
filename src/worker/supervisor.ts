// The supervisor: N worker processes, the event log they share, their beats, and what happens at once when one dies.
import type { ChildProcess } from 'node:child_process'
import type { Client } from '@temporalio/client'
import type { HoldOptions } from '../activities/needs.ts'
import type { Logger } from '../agent/tool.ts'
import { connectClient, resolveTemporal, warnIfAssumed } from '../connect/temporal.ts'
import { storeOptions } from './create-worker.ts'
import { handOver } from './dead-worker.ts'
import { WorkerError } from './errors.ts'
import { defaultLogger } from './logger.ts'
import { readWhenThere } from './logs.ts'
import { memoryLog } from './memory-log.ts'
import type { FromWorker } from './messages.ts'
import type { SuperviseOptions, Supervisor, SupervisorEvent } from './options.ts'
import { hear, startProcess, tell } from './process.ts'
import { startRecoveryClock } from './recovery-clock.ts'
import { startRespawning } from './respawn.ts'
import { type Child, exitOf, newChild, note, takeHolds } from './supervised-child.ts'
import { checkStuckLoopMs, startWatch } from './watch.ts'

/** How long a draining process may take before it is killed; what it held then goes on elsewhere. */
const DRAIN_MS = 60_000

/**
 * Starts worker processes for a module and keeps them running: one that dies is replaced, and what it held goes on at once.
 * Resolves when the first processes are started; `ready()` tells when one serves.
 * @throws WorkerError `invalid_options`, `no_temporal`, `no_postgres`, `no_typescript_loader`; StoreError `invalid_postgres_url`.
 */
export async function superviseWorkers(options: SuperviseOptions): Promise<Supervisor> {
  const { processes = 2, module } = options
  const stuckLoopMs = checkStuckLoopMs(options.stuckLoopMs)
  const temporal = resolveTemporal(options.temporal)
  const { postgres, ...store } = storeOptions(options)
  const { onEvent: tellOf = () => undefined, logger = defaultLogger() } = options
  warnIfAssumed(options.temporal, logger)
  const { client, close } = await connectClient(temporal)
  const settings = { module, temporal, postgres, ...store, ...(options.taskQueue !== undefined && { taskQueue: options.taskQueue }) }
  const needs = { client, logger, tellOf, start: () => startProcess(settings) }
  const supervision = startSupervision(needs, processes, stuckLoopMs)
  void supervision.finished.then(close, close)
  return supervision
}

/** What a supervision works with. */
interface Needs {
  client: Client
  logger: Logger
  tellOf(event: SupervisorEvent): void
  start(): ChildProcess
}

function startSupervision({ client, logger, tellOf, start }: Needs, processes: number, stuckLoopMs: number): Supervisor {
  const children = new Set<Child>()
  const log = memoryLog()
  const clock = startRecoveryClock(tellOf)
  const firstReady = withResolvers<void>()
  const finished = withResolvers<void>()
  firstReady.promise.catch(() => undefined)
  let stopping = false
  let served = false
  const hasSpare = (): boolean => [...children].some((one) => one.ready)
  const respawning = startRespawning({ hasSpare, isStopping: () => stopping, spawn })
  const handingOver = new Set<Promise<void>>()

  function spawn(): void {
    const process = start()
    const { pid } = process
    if (pid === undefined) {
      process.once('error', (cause) =>
        firstReady.reject(new WorkerError('worker_start_failed', 'A worker process could not be started.', { cause })),
      )
      return
    }
    const child = newChild(process, pid, client)
    children.add(child)
    hear(process, (message) => receive(child, message))
    // Its channel closes when it dies, after its last messages were read; its exit may be told before that.
    process.once('disconnect', () => died(child))
    process.on('error', (err) => logger.warn({ err, pid }, 'a worker process reports an error'))
    tellOf({ event: 'worker_started', pid })
  }

  function receive(child: Child, message: FromWorker): void {
    note(child, message)
    switch (message.type) {
      case 'ready':
        served = true
        respawning.served()
        firstReady.resolve()
        tellOf({ event: 'worker_ready', pid: child.pid })
        if (stopping) tell(child.process, { type: 'shutdown' })
        return
      case 'start_failed': {
        const error = new WorkerError(message.code, message.message)
        // Before the first one has served, whoever waits for `ready` is told.
        if (served) logger.error({ err: error, pid: child.pid }, 'a worker process could not serve')
        firstReady.reject(error)
        return
      }
      case 'log':
        log.append(message.key, message.entries)
        return
      case 'read': {
        const { request, key, from, to } = message
        void readWhenThere(log, key, from, to).then((entries) => tell(child.process, { type: 'entries', request, entries }))
        return
      }
      case 'hold':
        clock.runsAgain(message.options, child.pid)
        return
      default:
        return
    }
  }

  function died(child: Child): void {
    const at = Date.now()
    // A process that only lost its channel would go on beside its replacement.
    child.process.kill('SIGKILL')
    children.delete(child)
    const { holds, causeOf } = takeHolds(child)
    const drained = stopping && holds.length === 0
    if (!drained) clock.died(holds, at)
    const cached = drained ? [] : [...child.cached.values()]
    const handedOver = exitOf(child)
      .then(() => {
        const handing = handOver(client, { held: holds, cached, causeOf }, logger)
        tellOf(deathOf(child, holds, at))
        return handing
      })
      .finally(() => {
        handingOver.delete(handedOver)
        finishIfDone()
      })
    handingOver.add(handedOver)
    if (!stopping) respawning.replace({ ready: child.ready, isHeldUp: () => clock.isWaitingFor(holds) })
  }

  function finishIfDone(): void {
    if (!stopping || children.size > 0 || handingOver.size > 0) return
    endWatch()
    finished.resolve()
  }

  const endWatch = startWatch(children, stuckLoopMs, logger)
  for (let i = 0; i < processes; i++) spawn()

  return {
    pids: () => [...children].map((child) => child.pid),
    ready: () => firstReady.promise,
    finished: finished.promise,
    async shutdown() {
      stopping = true
      for (const child of children) tell(child.process, { type: 'shutdown' })
      const late = setTimeout(() => {
        for (const child of children) child.process.kill('SIGKILL')
      }, DRAIN_MS)
      finishIfDone()
      await finished.promise
      clearTimeout(late)
    },
  }
}

function deathOf({ pid, process: { exitCode, signalCode } }: Child, held: readonly HoldOptions[], at: number): SupervisorEvent {
  const calls = held.map(({ sessionId, call, tool }) => ({ sessionId, call, ...(tool !== undefined && { tool }) }))
  return { event: 'worker_died', pid, code: exitCode, signal: signalCode, at, calls }
}

function withResolvers<T>(): { promise: Promise<T>; resolve: (value: T) => void; reject: (reason: unknown) => void } {
  let resolve: (value: T) => void = () => undefined
  let reject: (reason: unknown) => void = () => undefined
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
