// The supervisor: N worker processes, the event log they share, their beats, and what happens at once when one dies.
import type { ChildProcess } from 'node:child_process'
import type { Client } from '@temporalio/client'
import type { HoldOptions } from '../activities/needs.ts'
import type { DeathReport } from '../activities/contract.ts'
import type { Logger } from '../agent/tool.ts'
import { connectClient, resolveTemporal } from '../connect/temporal.ts'
import { openBeatDesk, type BeatDesk } from './beat-desk.ts'
import { storeOptions } from './create-worker.ts'
import { type CachedExecution, handOver } from './dead-worker.ts'
import { WorkerError } from './errors.ts'
import { defaultLogger } from './logger.ts'
import { readWhenThere } from './logs.ts'
import { memoryLog } from './memory-log.ts'
import type { FromWorker } from './messages.ts'
import type { SuperviseOptions, Supervisor, SupervisorEvent } from './options.ts'
import { hear, startProcess, tell } from './process.ts'
import { startRecoveryClock } from './recovery-clock.ts'

/** A booting process takes the CPU that the replay needs: the new one starts a moment later. */
const RESPAWN_AFTER_MS = 300
const RESPAWN_AT_MOST_MS = 5_000
/** What was held may hold up the new process for so long. */
const RESPAWN_HELD_UP_MS = 2_000
const RESPAWN_LOOK_MS = 50
/** How long an attempt may go on after its timeout, or after it was told to stop, before its process is killed. */
const OVERDUE_GRACE_MS = 5_000
const STUCK_LOOP_MS = 60_000
/** A process that says nothing for as long stands still: then no attempt that it holds can end, whoever is to blame. */
const STANDS_STILL_MS = 3_000
const WATCH_EVERY_MS = 500
/** How long a draining process may take before it is killed; what it held then goes on elsewhere. */
const DRAIN_MS = 60_000

/** A process and what is known of it. */
interface Child {
  process: ChildProcess
  pid: number
  desk: BeatDesk
  cached: Map<string, CachedExecution>
  /** When it was last heard of, and since when without its event loop standing still. */
  aliveAt: number
  turningSince: number
  ready: boolean
  heldSince: Map<number, number>
  stoppedAt: Map<number, number>
  /** Why the supervisor killed it: the attempts that were at fault. */
  killed?: { cause: DeathReport['cause']; guilty: Set<number> }
}

/**
 * Starts worker processes for a module and keeps them running: one that dies is replaced, and what it held goes on at once.
 * Resolves when the first processes are started; `ready()` tells when one serves.
 * @throws WorkerError `no_temporal`, `no_postgres`, `no_typescript_loader`.
 */
export async function superviseWorkers(options: SuperviseOptions): Promise<Supervisor> {
  const { processes = 2, module } = options
  const temporal = resolveTemporal(options.temporal)
  const { postgres, ...store } = storeOptions(options)
  const { client, close } = await connectClient(temporal)
  const logger = options.logger ?? defaultLogger()
  const settings = { module, temporal, postgres, ...store, ...(options.taskQueue !== undefined && { taskQueue: options.taskQueue }) }
  const supervision = startSupervision({ ...options, logger }, client, processes, () => startProcess(settings))
  void supervision.finished.then(close, close)
  return supervision
}

function startSupervision(
  options: SuperviseOptions & { logger: Logger },
  client: Client,
  processes: number,
  start: () => ChildProcess,
): Supervisor {
  const { logger, stuckLoopMs = STUCK_LOOP_MS } = options
  const children = new Set<Child>()
  const log = memoryLog()
  const tellOf = (event: SupervisorEvent): void => options.onEvent?.(event)
  const clock = startRecoveryClock(tellOf)
  const firstReady = withResolvers<void>()
  const finished = withResolvers<void>()
  firstReady.promise.catch(() => undefined)
  let stopping = false
  let served = false
  let respawnAfter = RESPAWN_AFTER_MS
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
    const child: Child = {
      process,
      pid,
      desk: openBeatDesk(
        client,
        (message) => tell(process, message),
        (id) => child.stoppedAt.set(id, Date.now()),
      ),
      cached: new Map(),
      aliveAt: Date.now(),
      turningSince: Date.now(),
      ready: false,
      heldSince: new Map(),
      stoppedAt: new Map(),
    }
    children.add(child)
    hear(process, (message) => receive(child, message))
    // Its channel closes when it dies, after its last messages were read; its exit may be told before that.
    process.once('disconnect', () => died(child))
    process.on('error', (err) => logger.warn({ err, pid }, 'a worker process reports an error'))
    tellOf({ event: 'worker_started', pid })
  }

  function receive(child: Child, message: FromWorker): void {
    const now = Date.now()
    if (now - child.aliveAt > STANDS_STILL_MS) child.turningSince = now
    child.aliveAt = now
    switch (message.type) {
      case 'ready':
        child.ready = true
        served = true
        respawnAfter = RESPAWN_AFTER_MS
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
        child.cached.set(message.workflowId, { workflowId: message.workflowId, executionId: message.executionId })
        return
      case 'read': {
        const { request, key, from, to } = message
        void readWhenThere(log, key, from, to).then((entries) => tell(child.process, { type: 'entries', request, entries }))
        return
      }
      case 'hold':
        child.heldSince.set(message.id, Date.now())
        clock.runsAgain(message.options, child.pid)
        break
      case 'release':
        child.heldSince.delete(message.id)
        child.stoppedAt.delete(message.id)
        break
      case 'report':
      case 'alive':
        break
    }
    child.desk.receive(message)
  }

  function died(child: Child): void {
    const at = Date.now()
    // A process that only lost its channel would go on beside its replacement.
    child.process.kill('SIGKILL')
    children.delete(child)
    const held = new Map(child.desk.beater.held())
    const holds = [...held.values()]
    child.desk.beater.stop()
    const { killed } = child
    const guilty = new Set([...(killed?.guilty ?? [])].map((id) => held.get(id)))
    const causeOf = (hold: HoldOptions): DeathReport['cause'] => {
      if (!killed) return 'crash'
      return guilty.has(hold) || killed.cause === 'stuck_loop' ? killed.cause : 'neighbour'
    }
    const drained = stopping && holds.length === 0
    if (!drained) clock.died(holds, at)
    const cached = drained ? [] : [...child.cached.values()]
    const handedOver = exitOf(child.process)
      .then(() => {
        const handing = handOver(client, { held: holds, cached, causeOf }, logger)
        tellOfDeath(child, holds, at)
        return handing
      })
      .finally(() => {
        handingOver.delete(handedOver)
        finishIfDone()
      })
    handingOver.add(handedOver)
    if (!stopping) respawnLater(child, holds)
  }

  function tellOfDeath(child: Child, held: HoldOptions[], at: number): void {
    const calls = held.map(({ sessionId, call, tool }) => ({ sessionId, call, ...(tool !== undefined && { tool }) }))
    const { exitCode, signalCode } = child.process
    tellOf({ event: 'worker_died', pid: child.pid, code: exitCode, signal: signalCode, at, calls })
  }

  function respawnLater(child: Child, held: readonly HoldOptions[]): void {
    if (!child.ready) respawnAfter = Math.min(respawnAfter * 2, RESPAWN_AT_MOST_MS)
    const latest = Date.now() + Math.max(respawnAfter, RESPAWN_HELD_UP_MS)
    const spare = (): boolean => [...children].some((one) => one.ready)
    const attempt = (): void => {
      if (stopping) return
      // With a spare at work on what was held, the new process waits for it; with none, everything waits for the new one.
      if (spare() && clock.isWaitingFor(held) && Date.now() < latest) setTimeout(attempt, RESPAWN_LOOK_MS)
      else spawn()
    }
    setTimeout(attempt, spare() || !child.ready ? respawnAfter : 0)
  }

  /** Kills processes whose event loop stands still, and those that hold an attempt past its time: before anything is verified. */
  function watch(): void {
    const now = Date.now()
    for (const child of children) {
      if (child.ready && now - child.aliveAt > stuckLoopMs) kill(child, 'stuck_loop', new Set())
      const overdue = overdueOf(child, now)
      if (overdue.size > 0) kill(child, 'overdue', overdue)
    }
  }

  /** The attempts that had their time and a grace, both while the event loop turned; a loop that often stands still stretches it only so far. */
  function overdueOf(child: Child, now: number): Set<number> {
    const overdue = new Set<number>()
    const isStill = now - child.aliveAt > STANDS_STILL_MS
    for (const [id, { timeoutMs }] of child.desk.beater.held()) {
      const since = child.heldSince.get(id) ?? now
      const ends = [child.stoppedAt.get(id), timeoutMs === undefined ? undefined : since + timeoutMs]
      const due = Math.min(...ends.filter((end) => end !== undefined))
      const hadGrace = !isStill && now - Math.max(due, child.turningSince) > OVERDUE_GRACE_MS
      if (hadGrace || now - due > stuckLoopMs + OVERDUE_GRACE_MS) overdue.add(id)
    }
    return overdue
  }

  function kill(child: Child, cause: DeathReport['cause'], guilty: Set<number>): void {
    if (child.killed) return
    child.killed = { cause, guilty }
    logger.warn({ pid: child.pid, cause }, 'a worker process is killed')
    child.process.kill('SIGKILL')
  }

  function finishIfDone(): void {
    if (stopping && children.size === 0 && handingOver.size === 0) {
      clearInterval(watching)
      finished.resolve()
    }
  }

  const watching = setInterval(watch, WATCH_EVERY_MS)
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

/** Only now is it surely dead, and are its connections closed: a task must not be given to a poll of its that the server still holds. */
function exitOf(process: ChildProcess): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => process.once('exit', () => resolve()))
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
