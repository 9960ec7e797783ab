// Dependencies of the activities, which the orchestrator (`worker/`) provides.
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import type { JobOrder } from '../calls/jobs.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { Store } from '../store/store.ts'

/** Identifies events: a session, and the first execution of the chain that wrote them. */
export interface LogKey {
  sessionId: string
  epoch: string
}

/** A cache of events, trusted only up to a watermark. */
export interface EventLog {
  /**
   * Adds entries. An entry that differs from the one in the log replaces that one and all later ones. `in_task`: they come from a workflow
   * task that the server may still reject. `accepted` (default): they come from history.
   */
  append(key: LogKey, entries: readonly LogEntry[], made?: 'in_task' | 'accepted'): void
  /** The entries above `from` up to `to`, if the log has them and their digests link the two. */
  read(key: LogKey, from: Watermark, to: Watermark): LogEntry[] | undefined
}

/** Callbacks for a running job. */
export interface JobListener {
  /** The executor enters the body. */
  entered?(worker: string): void
  progress?(value: Json): void
}

/** The dependencies that the activities of one orchestrator share. */
export interface ActivityNeeds {
  client: Client
  store: Store
  /**
   * Runs the job on an executor and sends heartbeats in the meantime. Rejects with the failure of the activity, such as `WorkerDied` if the
   * executor died with the job. Returns undefined if no executor could accept it.
   */
  dispatch(order: JobOrder, listener?: JobListener): Promise<{ result: unknown } | undefined>
  logger: Logger
  /** This process, as people see it: `host:pid`. */
  worker: string
}
