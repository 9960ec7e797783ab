// What a worker and a supervisor take and tell.
import type { DataConverter } from '@temporalio/common'
import type { NativeConnection, WorkerInterceptors, WorkerOptions as TemporalWorkerOptions } from '@temporalio/worker'
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { Duration } from '../session/duration.ts'
import type { WorkerDefinition } from './definition.ts'

/**
 * What of OpenTelemetry is on: without `prometheus`, traces and metrics by OTLP. Endpoints, headers, sampling and names are set by its
 * variables (`OTEL_…`).
 */
export interface TelemetryOptions {
  /**
   * Serves metrics to Prometheus at `http://<host>:<port>/metrics`, from each orchestrator. Export by OTLP is then left to the variables.
   * Default of `port`: `OTEL_EXPORTER_PROMETHEUS_PORT` or 9464; of `host`: `OTEL_EXPORTER_PROMETHEUS_HOST` or 127.0.0.1.
   */
  prometheus?: { port?: number; host?: string }
  /**
   * Whether spans have what users, models and tools said. Default: `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT`, and otherwise
   * false.
   */
  contents?: boolean
}

/** Options of `createWorker` and `runWorker`. */
export interface CreateWorkerOptions extends WorkerDefinition {
  /** Where Temporal is. Default: `TEMPORAL_*`, the profile file, and last, with a warning, `127.0.0.1:7233`. */
  temporal?: TemporalAddress
  /** A connection of yours instead of `temporal`; it stays yours to close. */
  connection?: NativeConnection
  /** Temporal namespace. Default: `temporal.namespace`, `TEMPORAL_NAMESPACE`, `default`. */
  namespace?: string
  /** Task queue that is polled; clients and sessions name the same. Default `pawl`. */
  taskQueue?: string
  /** The side store: a URL or a `pg.Pool` of yours. Default: `DATABASE_URL`. */
  postgres?: string | Pool
  /** Postgres schema. Default `pawl`. */
  schema?: string
  /** `auto` (default) applies migrations at start, `check` refuses to write to a store that lacks some, `off` looks at nothing. */
  migrate?: 'auto' | 'check' | 'off'
  /** Payload converter and codecs (encryption); the clients' own. Default: Temporal's. */
  dataConverter?: DataConverter
  /** Interceptors of Temporal's worker. Default: none. */
  interceptors?: WorkerInterceptors
  /** How many tasks run at once, as Temporal's worker takes it. Default: Temporal's. */
  tuner?: NonNullable<TemporalWorkerOptions['tuner']>
  /** Log lines. Default: on stderr from level `PAWL_LOG_LEVEL` or `info` on, readable on a terminal, otherwise as pino's JSON. */
  logger?: Logger
  /**
   * Traces and metrics by OpenTelemetry; `false`: none, whatever the variables say. Default: they are exported if a variable names an
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
  /** Stops polling, finishes what it holds, and resolves `run`. */
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
  /** Megabytes of heap that an executor may use, 32 to 1,000,000; above that it ends, and what it held is resumed. Default: Node's own limit. */
  executorMemory?: number
  /** Where Temporal is; certificates and keys go to the orchestrator alone. Default: as for `createWorker`. */
  temporal?: TemporalAddress
  /** Task queue that is polled; clients and sessions name the same. Default `pawl`. */
  taskQueue?: string
  /** URL of the side store. Default: `DATABASE_URL`. */
  postgres?: string
  /** Postgres schema. Default `pawl`. */
  schema?: string
  /** As for `createWorker`. Default `auto`. */
  migrate?: 'auto' | 'check' | 'off'
  /** Path of a module that exports a `dataConverter` (a payload converter's path, codecs); the orchestrator loads it. Default: none. */
  dataConverter?: string
  /** Path of a module that exports `interceptors`; the orchestrator loads it. Default: none. */
  interceptors?: string
  /** How long an executor's event loop may be blocked before the executor is killed. At most `'110s'`. Default `'60s'`. */
  stuckLoop?: Duration
  /** How long the module may take to load and make its services, at most 24 days. Default `'60s'`. */
  loadTimeout?: Duration
  /** Told of each file of yours that an executor loads, or misses: what to watch to know when to `reload`. Not of packages. Default: nothing is told. */
  onFile?: (path: string) => void
  /** Log lines of all processes. Default: as for `createWorker`, from each process. */
  logger?: Logger
  /** As for `createWorker`. */
  telemetry?: TelemetryOptions | false
  /** As for `createWorker`. */
  redact?: readonly string[]
  /** Told of what happens to the processes. Default: nothing is told. */
  onEvent?: (event: SupervisorEvent) => void
}

/** What a supervisor tells of its processes. `worker_…` events are about executors. */
export type SupervisorEvent =
  | { event: 'worker_started'; pid: number }
  /** The executor has loaded the module and can be given jobs. */
  | { event: 'worker_ready'; pid: number }
  | { event: 'worker_died'; pid: number; code: number | null; signal: string | null; at: number; calls: HeldCall[] }
  /** A call that a dead executor held is running again (or is being verified), `ms` after the death. */
  | { event: 'call_resumed'; pid: number; sessionId: string; call: string; ms: number }
  | { event: 'orchestrator_started'; pid: number }
  /** It polls. */
  | { event: 'orchestrator_ready'; pid: number }
  | { event: 'orchestrator_died'; pid: number; code: number | null; signal: string | null; at: number }

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
  /** Resolves when the orchestrator polls and an executor is ready. Rejects with what prevents it: a `WorkerError`, a `DeclarationError`, … */
  ready(): Promise<void>
  /**
   * Replaces the executors by new ones, which load the module anew; the old ones finish what they hold. Resolves when new code serves.
   * Rejects, and the old ones keep serving, if the module cannot be loaded (WorkerError `module_failed`,
   * `module_hangs`, …; DeclarationError), and with WorkerError `reload_superseded` if another reload begins meanwhile.
   */
  reload(): Promise<void>
  /** No new work; resolves when what is held has finished and all processes have ended. */
  shutdown(): Promise<void>
  /** Ends all processes at once; what they held is resumed by another worker. */
  kill(): void
  /** Resolves when all has ended. */
  finished: Promise<void>
}
