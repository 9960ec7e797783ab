// What a worker and a supervisor take and tell.
import type { DataConverter } from '@temporalio/common'
import type { NativeConnection, WorkerInterceptors, WorkerOptions as TemporalWorkerOptions } from '@temporalio/worker'
import type { Pool } from 'pg'
import type { Logger } from '../agent/tool.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { WorkerDefinition } from './definition.ts'

/** What `createWorker` and `runWorker` take. */
export interface CreateWorkerOptions extends WorkerDefinition {
  /** Where Temporal is. Default: `TEMPORAL_*`. */
  temporal?: TemporalAddress
  /** A connection of yours instead of `temporal`; it stays yours to close. */
  connection?: NativeConnection
  /** Default: `temporal.namespace`, `TEMPORAL_NAMESPACE`, `default`. */
  namespace?: string
  /** Default `pawl`. */
  taskQueue?: string
  /** The side store: a URL or a `pg.Pool` of yours. Default: `DATABASE_URL`. */
  postgres?: string | Pool
  /** Postgres schema. Default `pawl`. */
  schema?: string
  /** `auto` (default) applies migrations at start, `check` refuses to write to a store that lacks some, `off` looks at nothing. */
  migrate?: 'auto' | 'check' | 'off'
  dataConverter?: DataConverter
  interceptors?: WorkerInterceptors
  tuner?: NonNullable<TemporalWorkerOptions['tuner']>
  /** Default: pino on stderr, level `PAWL_LOG_LEVEL` or `warn`. */
  logger?: Logger
}

/** A worker in this process. */
export interface PawlWorker {
  /** Serves until `shutdown`; rejects if the worker fails. */
  run(): Promise<void>
  /** Stops polling, finishes what it holds, and resolves `run`. */
  shutdown(): Promise<void>
  status(): { state: string; activities: number; sessions: number }
}

/** What `superviseWorkers` takes. Plain data: it crosses into the child processes. */
export interface SuperviseOptions {
  /** Path of the worker module (TypeScript or JavaScript): default export of `defineWorker`, an agent, a list of agents, or `agents`. */
  module: string
  /** Worker processes. Default 2: one is warm while another is replaced. */
  processes?: number
  temporal?: TemporalAddress
  taskQueue?: string
  /** URL of the side store. Default: `DATABASE_URL`. */
  postgres?: string
  schema?: string
  migrate?: 'auto' | 'check' | 'off'
  /** Milliseconds an event loop may stand still before its process is killed. Default 60,000, at most 110,000. */
  stuckLoopMs?: number
  logger?: Logger
  /** Told of what happens to the processes. */
  onEvent?: (event: SupervisorEvent) => void
}

/** What a supervisor tells of its processes. */
export type SupervisorEvent =
  | { event: 'worker_started'; pid: number }
  /** The process polls: it is serving. */
  | { event: 'worker_ready'; pid: number }
  | { event: 'worker_died'; pid: number; code: number | null; signal: string | null; at: number; calls: HeldCall[] }
  /** A call that a dead process held is running again (or is being verified), `ms` after the death. */
  | { event: 'call_resumed'; pid: number; sessionId: string; call: string; ms: number }

/** A model call or tool call that a process held. */
export interface HeldCall {
  sessionId: string
  /** `model:<run>:<turn>`, or the tool's call id. */
  call: string
  tool?: string
}

/** A running supervisor. */
export interface Supervisor {
  /** Pids of the worker processes alive now. */
  pids(): number[]
  /** Resolves when at least one process polls (rejects with `WorkerError` `worker_start_failed` when none can start). */
  ready(): Promise<void>
  /** SIGTERM to all processes: they stop polling, finish what they hold, exit. */
  shutdown(): Promise<void>
  /** Resolves when all has ended. */
  finished: Promise<void>
}
