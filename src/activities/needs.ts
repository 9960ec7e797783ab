// What the activities need of the orchestrator they run in; `worker/` provides it.
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { JobOrder } from '../jobs/contract.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { Store } from '../store/store.ts'

/** Whose events: a session, and the first execution of the chain that wrote them. */
export interface LogKey {
  sessionId: string
  epoch: string
}

/** A cache of events, trusted only up to a watermark. */
export interface EventLog {
  /** Adds entries. One that differs from what the log holds replaces it and all after it. */
  append(key: LogKey, entries: readonly LogEntry[]): void
  /** The entries above `from` up to `to`, if the log has them and they connect the two. */
  read(key: LogKey, from: Watermark, to: Watermark): LogEntry[] | undefined
}

/** Told of what happens to a job while it runs. */
export interface JobListener {
  /** Its body is entered, on this worker. */
  entered?(worker: string): void
  progress?(value: Json): void
}

/** What the activities of one orchestrator share. */
export interface ActivityNeeds {
  client: Client
  store: Store
  log: EventLog
  /**
   * Has an executor carry out the job; heartbeats for it meanwhile. Rejects with what the activity is to fail with: `WorkerDied` when the
   * executor died with it. Undefined: no executor could take it on.
   */
  dispatch(order: JobOrder, listener?: JobListener): Promise<{ result: unknown } | undefined>
  logger: Logger
  /** This process, for people: `host:pid`. */
  worker: string
}
