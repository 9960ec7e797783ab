// What the side store is to the rest of pawl: a place to flush events to, and rows to read.
import type { LogEntry, SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { Blobs } from './blobs.ts'
import type { SessionState } from '../session/state.ts'
import type { Lists } from './read/lists/index.ts'
import type { Watched } from './postgres/listener.ts'
import type { Upkeep } from './maintenance/upkeep.ts'
import type { MessageRow, StoredHead } from './rows.ts'

export type { Watched }

/** What a flush tells besides the events. */
export interface FlushOptions {
  /** The events are the past of a fork, copied from this session: they count nothing here. */
  inherited?: string
  /** Earlier tries to flush these events failed: said of the newest checkpoint among them, in `errors`. */
  late?: LateFlush
  /** The execution that the events were read from. */
  executionId?: string
}

/** Since when, how often and why flushes had failed. */
export interface LateFlush {
  since: Date
  code: string
  message: string
  attempts: number
}

/** What a session whose workflow had closed goes on from: its state at the head; or, where neither a checkpoint nor the events can be
 * read any more (`lost`), what its row says of it. */
export type Resumed = { seq: number; digest: string; warnings: string[] } & (
  | { lost?: undefined; state: SessionState }
  /** `erased`: on request, so that it is anybody's to begin anew. */
  | { lost: true; erased?: true; agent: string; context: Json; tags: string[]; run: number; checkpoint: number }
)

/** The side store. Every method rejects with `StoreError` (`store_unavailable`, …) when Postgres cannot be had. */
export interface Store {
  /** How far the session is stored; null for a session that the store does not know. */
  head(sessionId: string): Promise<StoredHead | null>
  /**
   * Applies to all projections, in one transaction under the session's row lock, just those of `entries` that lie above the
   * stored head and continue its digest; answers with the new head. Late and repeated flushes change nothing.
   * Values that columns cannot hold are adjusted, and noted in `events.adjusted`. Where Postgres refuses the events themselves, or they
   * are too many for a statement's time, they are applied in several transactions.
   * A batch of another epoch is taken only if it begins with `session_resumed` (or a second `session_started`) on the stored digest; else it is set aside
   * in `stray_events`, and `StoreError` `foreign_epoch` is thrown.
   */
  flush(sessionId: string, epoch: string, entries: readonly LogEntry[], options?: FlushOptions): Promise<StoredHead>
  /**
   * The session's state at the stored head, from its newest readable checkpoint and the events above it, else from its events;
   * null for a session that the store does not know. What was passed over is told in `warnings`. `executionId`: of the execution that
   * loads it, which `lastExecution` names from then on.
   */
  resume(sessionId: string, executionId?: string): Promise<Resumed | null>
  /** The execution that loaded the session or wrote events last, or the first of its chain; null for a session that the store does not know. */
  lastExecution(sessionId: string): Promise<string | null>
  /** Best effort: writes `running`, the attempt and the worker to the call's row; nothing depends on it. */
  markRunning(sessionId: string, callId: string, attempt: number, worker: string): Promise<void>
  /** Best effort: writes to the row of a call that runs what its attempt says of how far it is; nothing depends on it. */
  markProgress(sessionId: string, callId: string, attempt: number, value: Json): Promise<void>

  /** Stored events above `after`, at most `limit` (default 1,000) or about 4 MB, in `seq` order. */
  events(sessionId: string, options?: { after?: number; limit?: number }): Promise<SessionEvent[]>
  /** The same as they were flushed, text and digests. */
  entries(sessionId: string, options?: { after?: number; limit?: number }): Promise<LogEntry[]>
  messages(sessionId: string): Promise<MessageRow[]>
  /**
   * A `seq` from which the message's events can be followed: the one before its `message_received` or `message_rejected`, or, while
   * neither is stored, the session's head; 0 for a session that the store does not know.
   */
  locateMessage(sessionId: string, messageId: string): Promise<number>

  /** Asking over sessions. */
  readonly lists: Lists
  /** Values too large for history. */
  readonly blobs: Blobs
  /** Pruning, erasing, and what restoring rows needs. */
  readonly upkeep: Upkeep

  /** Calls back when something of the session (`'*'`: of any) was committed, or may have been: wakes only, read from a cursor. */
  watch(sessionId: string, wake: () => void, which?: Watched): () => void
  /** Whether a notification of any session has come within the last `ms`: then its writers write, and wakes arrive. */
  hasHeardWithin(ms: number): boolean
  close(): Promise<void>
}
