// The parent of a worker: starts, restarts and kills its orchestrator and executors, and confirms their deaths. It loads no SDK and runs
// no user code, so that only a failure of the machine can bring it down.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Logger } from '../../agent/tool.ts'
import { openLogger } from '../../log/logger.ts'
import type { SentLine } from '../../log/sending-logger.ts'
import { userLogger } from '../../log/user-logger.ts'
import { startApiKeys } from '../api-keys.ts'
import { crossed } from '../crossed.ts'
import type { SuperviseOptions, Supervisor } from '../options.ts'
import type { ExitedExecutor, FromOrchestrator, LogOptions } from '../protocol.ts'
import { storeOptions } from '../store-options.ts'
import { type TelemetrySettings, telemetrySettings } from '../telemetry-settings.ts'
import { checkSupervise, type CheckedSuperviseOptions } from '../check-options.ts'
import { type Executors, keepExecutors } from './executors.ts'
import { type KeptOrchestrator, keepOrchestrator } from './orchestrator.ts'
import { steadyNow } from '../steady-clock.ts'
import { defined } from '../../session/defined.ts'

/** How long draining may take before all processes are killed; their calls are resumed elsewhere. */
const DRAIN_MS = 60_000
/** An orchestrator that lives for longer than this after an executor's death has ended the attempts of that executor. */
const UNSEEN_MS = 1_000
/** How many dead executors are remembered. */
const MAX_EXITED = 100

/**
 * Starts an orchestrator and executors for a module and keeps them running: a process that dies is replaced, and its calls resume at once.
 * Resolves when Temporal answers; `ready()` resolves when the module's agents are served.
 * @throws InvalidOptionError `invalid_option`; ConnectError `not_configured`, `no_temporal`; StoreError `invalid_postgres_url`,
 * `invalid_store_options`, `foreign_namespace`; WorkerError `no_postgres`, `no_typescript_loader`, `no_telemetry_packages`; and the errors
 * of the modules in `dataConverter` and `interceptors`.
 */
export async function superviseWorkers(options: SuperviseOptions): Promise<Supervisor> {
  const checked = checkSupervise(options)
  const store = storeOptions(checked)
  const log = openLogger({ to: checked.logger && userLogger(checked.logger), redact: checked.redact })
  const telemetry = telemetrySettings(checked.telemetry)
  const folder = mkdtempSync(join(tmpdir(), 'pawl-'))
  const supervision = startSupervision({ options: checked, store, log, telemetry, folder })
  try {
    await supervision.connected
  } catch (error) {
    supervision.kill()
    await supervision.finished
    throw error
  }
  return supervision
}

interface Supervision {
  options: CheckedSuperviseOptions
  store: ReturnType<typeof storeOptions<string>>
  log: Logger
  telemetry: TelemetrySettings | undefined
  folder: string
}

function startSupervision(given: Supervision): Supervisor & { connected: Promise<void> } {
  const { options, log, telemetry, folder } = given
  const { onEvent: notify = () => undefined } = options
  const logOptions: LogOptions = { toParent: options.logger !== undefined, redact: options.redact ?? [] }
  const startup = followStartup(log)
  const finished = withResolvers<void>()
  let isStopping = false
  /** Kept for the next orchestrator, because an orchestrator that is dying or starting may not have been notified of these deaths. */
  const exited: (Omit<ExitedExecutor, 'isUnseen'> & { at: number })[] = []
  let isServed = false
  /** The newest orchestrator that has served did not see the deaths since then. */
  let unseenSince = Number.POSITIVE_INFINITY
  const exitedSoFar = (): ExitedExecutor[] =>
    exited.map(({ at, ...one }) => ({ ...one, ...(at >= unseenSince && { isUnseen: true as const }) }))
  const executors: Executors = keepExecutors({
    module: options.module,
    count: options.processes,
    memoryMb: options.executorMemory,
    loadTimeoutMs: options.loadTimeoutMs,
    log: logOptions,
    traces: telemetry?.traces,
    onLine: writeLine,
    onFile: options.onFile,
    onStarted: (pid) => notify({ event: 'worker_started', pid }),
    onExit({ id, ...exit }) {
      const { pid } = exit
      exited.push({ executor: id, pid, at: steadyNow() })
      if (exited.length > MAX_EXITED) exited.shift()
      if (orchestrator.isListening()) orchestrator.tell({ type: 'executor_exited', executor: id, ...exit })
      if (isStopping || !orchestrator.isListening()) notify({ event: 'worker_died', ...exit, at: Date.now(), calls: [] })
      finishIfDone()
    },
    onFailed: startup.moduleFailed,
  })

  const { apiKey, ...temporal } = options.temporal ?? {}
  const apiKeys = startApiKeys(apiKey, (newest) => orchestrator.tell({ type: 'api_key', apiKey: newest }))
  void finished.promise.then(apiKeys.end)
  const orchestrator: KeptOrchestrator = keepOrchestrator({
    folder,
    hasSpare: options.spare ?? true,
    options: () => ({
      ...given.store,
      temporal: { ...temporal, ...apiKeys.newest() },
      stuckLoopMs: options.stuckLoopMs,
      processes: options.processes,
      healAfterMs: options.healAfterMs,
      executors: executors.holders(),
      exited: exitedSoFar(),
      log: logOptions,
      ...defined({ taskQueue: options.taskQueue, dataConverter: options.dataConverter, interceptors: options.interceptors, telemetry }),
    }),
    onStarted(pid) {
      notify({ event: 'orchestrator_started', pid })
      retire()
    },
    onMessage: receive,
    onListening(path) {
      orchestrator.tell({ type: 'exited', exited: exitedSoFar() })
      executors.connectTo(path)
    },
    onExit(exit) {
      // One that dies before it serves has not taken over what the one before it left.
      if (isServed) unseenSince = steadyNow() - UNSEEN_MS
      isServed = false
      startup.orchestratorDied()
      notify({ event: 'orchestrator_died', ...exit })
      if (isStopping) executors.shutdown('released')
      finishIfDone()
    },
  })

  function receive(message: FromOrchestrator, pid: number): void {
    switch (message.type) {
      case 'connected':
        return startup.connected()
      case 'serving':
        isServed = true
        notify({ event: 'orchestrator_ready', pid })
        return startup.serving()
      case 'failed':
        return startup.orchestratorFailed(crossed(message.error))
      case 'executor_ready': {
        const newPid = executors.ready(message.executor)
        if (newPid !== undefined) notify({ event: 'worker_ready', pid: newPid })
        return startup.executorReady()
      }
      case 'alive':
        return executors.vouchFor(message.holds)
      case 'kill':
        return executors.kill(message.executor, message.why)
      case 'drained':
        return executors.release(message.executor)
      case 'event':
        return notify(message.event)
      case 'log':
        return writeLine(message)
      default:
        return
    }
  }

  function writeLine({ level, fields, message }: SentLine): void {
    log[level](fields, message)
  }

  /** Tells a new orchestrator which executors must end. */
  function retire(): void {
    orchestrator.tell({ type: 'retire', executors: executors.retired() })
  }

  function finishIfDone(): void {
    if (!isStopping || executors.size() > 0 || orchestrator.pid() !== undefined) return
    rmSync(folder, { recursive: true, force: true })
    finished.resolve()
  }

  function kill(): void {
    isStopping = true
    orchestrator.kill()
    executors.shutdown('SIGKILL')
    finishIfDone()
  }

  try {
    executors.start()
    orchestrator.start()
  } catch (error) {
    kill()
    throw error
  }

  return {
    connected: startup.whenConnected,
    pids: executors.pids,
    orchestratorPid: orchestrator.pid,
    ready: () => startup.whenReady,
    finished: finished.promise,
    async reload() {
      await executors.replace()
      retire()
    },
    async shutdown() {
      isStopping = true
      executors.stopStarting()
      orchestrator.shutdown()
      if (orchestrator.pid() === undefined) executors.shutdown('released')
      const late = setTimeout(kill, DRAIN_MS)
      finishIfDone()
      await finished.promise
      clearTimeout(late)
    },
    kill,
  }
}

/** Tracks the start of a worker, and what its caller learns of it. */
interface Startup {
  /** An orchestrator is connected to Temporal. Rejects if the first one cannot start. */
  whenConnected: Promise<void>
  /** An orchestrator serves, and an executor has loaded the module. Rejects with the first failure. */
  whenReady: Promise<void>
  connected(): void
  serving(): void
  executorReady(): void
  orchestratorFailed(error: Error): void
  moduleFailed(error: Error): void
  orchestratorDied(): void
}

function followStartup(log: Logger): Startup {
  const connected = withResolvers<void>()
  const ready = withResolvers<void>()
  ready.promise.catch(() => undefined)
  connected.promise.catch(() => undefined)
  let isServing = false
  let hasExecutor = false
  let isConnected = false
  /** Whether the caller of `ready` gets the error, now or later. */
  let isSettled = false
  /** The last logged error: while Temporal is down, each retry fails for the same reason, which is logged once. */
  let notStartedFor: string | undefined

  function resolveIfReady(): void {
    if (!isServing || !hasExecutor) return
    isSettled = true
    ready.resolve()
  }

  return {
    whenConnected: connected.promise,
    whenReady: ready.promise,
    connected() {
      isConnected = true
      connected.resolve()
    },
    serving() {
      isServing = true
      notStartedFor = undefined
      resolveIfReady()
    },
    executorReady() {
      hasExecutor = true
      resolveIfReady()
    },
    orchestratorFailed(error) {
      // Before `isConnected`, the caller gets the error instead.
      if (isConnected && error.message !== notStartedFor) log.error({ err: error }, 'the orchestrator could not start')
      notStartedFor = error.message
      connected.reject(error)
      ready.reject(error)
    },
    moduleFailed(error) {
      if (!isSettled) ready.reject(error)
      // Before `isConnected`, no caller can have called `ready`.
      else if (isConnected) log.error({ err: error }, 'the module could not be loaded: pawl retries with growing pauses')
      isSettled = true
    },
    orchestratorDied() {
      isServing = false
    },
  }
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
