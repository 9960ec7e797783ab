// Keeps the orchestrator of a worker running: one at a time, replaced when it dies or freezes.
import { randomUUID } from 'node:crypto'
import type { ChildProcess } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { defined } from '../../session/defined.ts'
import type { ProcessDeath } from '../options.ts'
import { startPeriodicCheck } from '../periodic-check.ts'
import type { FailingExecution, FromOrchestrator, OrchestratorOptions, ToOrchestrator } from '../protocol.ts'
import { startBackoff } from './backoff.ts'
import { cachedExecutions } from './cached-executions.ts'
import { forkOrchestrator, killGroup, tell } from './processes.ts'
import { keepSpare } from './spare.ts'
import { steadyNow } from '../steady-clock.ts'

const RESPAWN_MS = 20
/** An orchestrator that is silent for this long counts as frozen: its event loop never has long tasks. */
const STUCK_MS = 60_000
const CHECK_EVERY_MS = 1_000
/** How many dead orchestrators are remembered. The attempts of older ones have exceeded their heartbeat timeout. */
const MAX_PREDECESSORS = 20
/** How many failing executions are remembered. For any other one, the next orchestrator waits until the server gives it the task again. */
const MAX_FAILING = 1_000

export interface OrchestratorNeeds {
  /** Called at each start, because API keys rotate. */
  options: () => Omit<OrchestratorOptions, 'socketPath' | 'folder' | 'cached' | 'failing' | 'workerSecret' | 'predecessors'>
  /** Whether a spare process waits to become the next one. */
  hasSpare: boolean
  /** The worker's own folder, with its sockets. */
  folder: string
  onStarted(pid: number): void
  onMessage(message: FromOrchestrator, pid: number): void
  onListening(path: string): void
  onExit(exit: ProcessDeath): void
}

interface OrchestratorChild {
  process: ChildProcess
  path: string
  isListening: boolean
  killedFor?: NonNullable<ProcessDeath['killedFor']>
}

export interface KeptOrchestrator {
  start(): void
  tell(message: ToOrchestrator): void
  pid(): number | undefined
  /** Whether executors can reach it. */
  isListening(): boolean
  kill(): void
  /** Lets the orchestrator finish and exit, and does not start another. */
  shutdown(): void
}

/** Prepares the orchestrator, and does not start it yet. */
export function keepOrchestrator(keeping: OrchestratorNeeds): KeptOrchestrator {
  const { options, hasSpare, folder, onStarted, onMessage, onListening, onExit } = keeping
  const cached = cachedExecutions()
  const failing = new Map<string, FailingExecution>()
  const backoff = startBackoff(RESPAWN_MS)
  const spare = keepSpare(forkSpare, hasSpare)
  const workerSecret = randomUUID().slice(0, 8)
  const predecessors: number[] = []
  let current: OrchestratorChild | undefined
  let aliveAt = steadyNow()
  let starts = 0
  let isStopping = false
  const endWatch = startPeriodicCheck({
    everyMs: CHECK_EVERY_MS,
    check(now) {
      if (now - aliveAt > STUCK_MS && current) end(current, 'frozen')
    },
    afterFreeze(ms) {
      aliveAt += ms
    },
  })

  function fork(): ChildProcess {
    const { dataConverter, interceptors } = options()
    return forkOrchestrator([dataConverter, interceptors].filter((module) => module !== undefined))
  }

  function forkSpare(): ChildProcess {
    const child = fork()
    const { dataConverter, interceptors, log } = options()
    tell(child, { type: 'prepare', options: { folder, log, ...defined({ dataConverter, interceptors }) } })
    return child
  }

  function start(child: ChildProcess): void {
    const given = options()
    const mine: OrchestratorChild = { process: child, path: socketPath(folder, ++starts), isListening: false }
    current = mine
    aliveAt = steadyNow()
    child.on('error', () => {
      // A process that was never started has no exit event.
      if (child.pid === undefined) exited(mine, null, null)
    })
    child.on('message', (message: FromOrchestrator) => {
      aliveAt = steadyNow()
      receive(mine, message)
    })
    child.once('exit', (code, signal) => exited(mine, code, signal))
    const known = { cached: cached.newest(), failing: [...failing.values()], workerSecret, predecessors }
    tell(child, { type: 'start', options: { ...given, socketPath: mine.path, folder, ...known } })
    if (child.pid !== undefined) onStarted(child.pid)
  }

  function end(one: OrchestratorChild, why: NonNullable<ProcessDeath['killedFor']>): void {
    one.killedFor ??= why
    killGroup(one.process)
  }

  function receive(from: OrchestratorChild, message: FromOrchestrator): void {
    if (message.type === 'cached') return message.executions.forEach(cached.note)
    if (message.type === 'no_longer_failing') return void failing.delete(message.executionId)
    if (message.type === 'failing') {
      if (failing.size < MAX_FAILING) failing.set(message.execution.executionId, message.execution)
      return
    }
    if (message.type === 'serving') {
      backoff.served()
      spare.prepare()
    }
    if (message.type === 'listening') {
      from.isListening = true
      onListening(from.path)
    }
    onMessage(message, from.process.pid ?? 0)
  }

  function exited(mine: OrchestratorChild, code: number | null, signal: string | null): void {
    if (current === mine) current = undefined
    if (mine.process.pid !== undefined) predecessors.push(mine.process.pid)
    if (predecessors.length > MAX_PREDECESSORS) predecessors.shift()
    void rm(mine.path, { force: true })
    onExit({ pid: mine.process.pid ?? 0, code, signal, at: Date.now(), ...defined({ killedFor: mine.killedFor }) })
    if (isStopping) return endWatch()
    const next = spare.take()
    if (next) start(next)
    else startLater()
  }

  function startLater(): void {
    setTimeout(() => {
      if (isStopping) return
      try {
        start(fork())
      } catch {
        // A machine without memory for another process refuses it.
        startLater()
      }
    }, backoff.next())
  }

  return {
    start: () => start(fork()),
    tell: (message) => tell(current?.process, message),
    pid: () => current?.process.pid,
    isListening: () => current?.isListening === true,
    kill() {
      isStopping = true
      spare.end()
      if (current) end(current, 'stopped')
    },
    shutdown() {
      isStopping = true
      spare.end()
      tell(current?.process, { type: 'shutdown' })
    },
  }
}

function socketPath(folder: string, number: number): string {
  return process.platform === 'win32' ? `\\\\.\\pipe\\pawl-${process.pid}-${number}` : join(folder, `${number}.sock`)
}
