// The options and events of workers and supervisors.
import type { DataConverter } from '@temporalio/common'
// Not from '@temporalio/worker' itself: the types of its Worker do not compile with Node 26's types, and callers may have them checked.
import type { NativeConnection } from '@temporalio/worker/lib/connection.js'
import type { WorkerInterceptors } from '@temporalio/worker/lib/interceptors.js'
import type { WorkerTuner } from '@temporalio/worker/lib/worker-tuner.js'
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { Duration } from '../session/duration.ts'
import type { WorkerDefinition } from './definition.ts'

/**
 * Which parts of OpenTelemetry are on: without `prometheus`, traces and metrics over OTLP. OpenTelemetry's variables (`OTEL_…`) set
 * endpoints, headers, sampling and names.
 */
export interface TelemetryOptions {
  /**
   * Serves metrics to Prometheus at `http://<host>:<port>/metrics`, from each orchestrator. The variables then decide about export over
   * OTLP. `port`: an integer from 1 to 65,535, by default `OTEL_EXPORTER_PROMETHEUS_PORT` or 9464. `host`: an address of this machine, by
   * default `OTEL_EXPORTER_PROMETHEUS_HOST` or 127.0.0.1.
   */
  prometheus?: { port?: number; host?: string }
  /**
   * Whether spans contain what users, models and tools said. Default: `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, and otherwise
   * false.
   */
  contents?: boolean
}

/** Options of `createWorker` and `runWorker`, for agents that need the services `S`. */
export interface CreateWorkerOptions<S = unknown> extends WorkerDefinition<S> {
  /** Where Temporal is. Default: `TEMPORAL_*`, then the profile file. */
  temporal?: TemporalAddress
  /** Your own connection, instead of `temporal`. The worker does not close it. */
  connection?: NativeConnection
  /** Temporal namespace. Default: `temporal.namespace`, `TEMPORAL_NAMESPACE`, `default`. */
  namespace?: string
  /** Task queue that the worker polls; clients and sessions must name the same one. Default `pawl`. */
  taskQueue?: string
  /** The side store: a URL or your own `pg.Pool`. Default: `DATABASE_URL`. */
  postgres?: string | Pool
  /** Postgres schema: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /** `auto` (default) applies migrations at start, `check` refuses to write to a store that lacks some, `off` checks nothing. */
  migrate?: 'auto' | 'check' | 'off'
  /** Payload converter and codecs (encryption); the same as the clients'. Default: Temporal's. */
  dataConverter?: DataConverter
  /** Interceptors of Temporal's worker. Default: none. */
  interceptors?: WorkerInterceptors
  /**
   * How many tasks run at once, in the form that Temporal's worker accepts. Default: as many as Temporal's, but few workflow tasks that
   * may need a replay, so that sessions return at a steady pace after an outage of all workers.
   */
  tuner?: WorkerTuner
  /**
   * How long no worker must have been able to complete a session's workflow task before a new execution takes the session over, which needs
   * no replay of the old one. In this time a bad deploy can be rolled back. `false`: a person must terminate the workflow. Default `'2m'`.
   */
  healAfter?: Duration | false
  /** Receives log lines. Default: stderr, from level `PAWL_LOG_LEVEL` or `info`; plain text on a terminal, otherwise pino's JSON. */
  logger?: Logger
  /**
   * Traces and metrics by OpenTelemetry. `false`: none, whatever the variables say. Default: exported if a variable names an
   * exporter or an endpoint (`OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`, `OTEL_EXPORTER_OTLP_ENDPOINT`, …).
   */
  telemetry?: TelemetryOptions | false
  /** Names whose values are left out of log lines, besides the usual ones (`password`, `token`, …): `['email', 'customer.phone']`. */
  redact?: readonly string[]
}

/** A worker in this process. */
export interface PawlWorker {
  /** Serves until `shutdown`; rejects if the worker fails. */
  run(): Promise<void>
  /** Stops polling and finishes the work in progress; then `run` resolves. */
  shutdown(): Promise<void>
  /** Temporal's state of the worker (`RUNNING`, `DRAINING`, …), and how many activities and sessions it holds. */
  status(): { state: string; activities: number; sessions: number }
}

/** Options of `superviseWorkers`. */
export interface SuperviseOptions {
  /** Path of the worker module (TypeScript or JavaScript): default export of `defineWorker`, an agent, a list of agents, or `agents`. */
  module: string
  /** Executors: processes that run the module. Default 2: one is warm while another is replaced. 1 to 64. */
  processes?: number
  /** Heap limit of an executor in MB, 32 to 1,000,000; above it the executor exits, and pawl resumes its calls. Default: Node's limit. */
  executorMemory?: number
  /** Where Temporal is; only the orchestrator receives certificates and keys. Default: as for `createWorker`. */
  temporal?: TemporalAddress
  /** Task queue that the worker polls; clients and sessions must name the same one. Default `pawl`. */
  taskQueue?: string
  /** URL of the side store. Default: `DATABASE_URL`. */
  postgres?: string
  /** Postgres schema: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /** As for `createWorker`. Default `auto`. */
  migrate?: 'auto' | 'check' | 'off'
  /** Path of a module that exports a `dataConverter` (a payload converter's path, codecs); the orchestrator loads it. Default: none. */
  dataConverter?: string
  /** Path of a module that exports `interceptors`; the orchestrator loads it. Default: none. */
  interceptors?: string
  /** How long an executor's event loop may be blocked before the executor is killed. At most `'110s'`. Default `'60s'`. */
  stuckLoop?: Duration
  /** As for `createWorker`. Default `'2m'`. */
  healAfter?: Duration | false
  /**
   * Whether a process waits to become the next orchestrator, from 10 s after one serves. It has loaded its code and takes about 150 MB;
   * without it, a death of the orchestrator takes about two seconds longer, and more on a busy machine. Default true.
   */
  spare?: boolean
  /** How long the module may take to load and create its services, at most 24 days. Default `'60s'`. */
  loadTimeout?: Duration
  /**
   * Called with each of your files that an executor loads or fails to find, but not with files of packages: watch these files to know when
   * to `reload`. Default: none.
   */
  onFile?: (path: string) => void
  /** Receives the log lines of all processes. Default: as for `createWorker`, from each process. */
  logger?: Logger
  /** As for `createWorker`. */
  telemetry?: TelemetryOptions | false
  /** As for `createWorker`. */
  redact?: readonly string[]
  /** Called with each event of the processes. Default: none. */
  onEvent?: (event: SupervisorEvent) => void
}

/** The events of a supervisor's processes. `worker_…` events are about executors. */
export type SupervisorEvent =
  | { event: 'worker_started'; pid: number }
  /** The executor has loaded the module and accepts jobs. */
  | { event: 'worker_ready'; pid: number }
  | ({ event: 'worker_died'; calls: HeldCall[] } & ProcessDeath)
  /** A call that a dead executor held is running again (or is being verified), `ms` after the death. */
  | { event: 'call_resumed'; pid: number; sessionId: string; call: string; ms: number }
  | { event: 'orchestrator_started'; pid: number }
  /** The orchestrator polls. */
  | { event: 'orchestrator_ready'; pid: number }
  | ({ event: 'orchestrator_died' } & ProcessDeath)

/** How a process ended. */
export interface ProcessDeath {
  pid: number
  code: number | null
  signal: string | null
  /** When it was noticed, in milliseconds since 1970. */
  at: number
  /**
   * Why pawl killed it; absent: pawl did not. `stuck_loop`: its event loop was blocked; `overdue`: its call ran past the timeout;
   * `broken_line`: it sent what cannot be decoded; `frozen`: it was silent for a minute; `stopped`: the worker was stopped, or had not
   * drained in time.
   */
  killedFor?: 'stuck_loop' | 'overdue' | 'broken_line' | 'frozen' | 'stopped'
}

/** A model call or tool call that an executor held. */
export interface HeldCall {
  /** The session's id. */
  sessionId: string
  /** `model:<run>:<turn>`, or the tool's call id. */
  call: string
  /** The tool's name, for a tool call. */
  tool?: string
}

/** A running supervisor: the parent of an orchestrator and its executors. */
export interface Supervisor {
  /** Pids of the executors alive now. */
  pids(): number[]
  /** Pid of the orchestrator alive now. */
  orchestratorPid(): number | undefined
  /** Resolves when the orchestrator polls and an executor is ready. If they cannot, rejects with a `WorkerError`, `DeclarationError`, … */
  ready(): Promise<void>
  /**
   * Replaces the executors with new ones, which reload the module; the old ones finish their jobs. Resolves when the new code serves.
   * Rejects if the module cannot be loaded (WorkerError `module_failed`, `module_hangs`, …; DeclarationError); the old executors then keep
   * serving. Rejects with WorkerError `reload_superseded` if another reload begins in the meantime.
   */
  reload(): Promise<void>
  /** Accepts no new work; resolves when all work in progress has finished and all processes have exited. */
  shutdown(): Promise<void>
  /** Kills all processes at once; another worker resumes their calls. */
  kill(): void
  /** Resolves when all processes have exited. */
  finished: Promise<void>
}
