// What the side store is to the rest of pawl: a place to flush events to, and rows to read.
import type { Message, Usage } from '../session/content.ts'
import type { LogEntry, SessionEvent, SessionStatus, ToolCallStatus, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { Blobs } from './blobs.ts'
import type { SessionState } from '../session/state.ts'
import type { Lists } from './lists/index.ts'
import type { Upkeep } from './upkeep.ts'

/** How far a session's events are stored: its head. */
export interface StoredHead extends Watermark {
  epoch: string
}

/** One row of `sessions`. */
export interface SessionRow {
  sessionId: string
  agent: string
  status: SessionStatus
  epoch: string
  run: number
  turns: number
  context: Json
  tags: string[]
  error: { code: string; reason: string; run?: number } | null
  usage: Usage
  flushedSeq: number
  createdAt: Date
  updatedAt: Date
}

/** One row of `messages`: a message of the transcript, as the model sees it. */
export interface MessageRow {
  /** The caller's `messageId` for what a user said; `m_<run>_<turn>` for the model's, `r_<run>_<turn>` for tool results. */
  messageId: string
  seq: number
  /** Absent while no run has taken the message. */
  run: number | null
  turn: number | null
  role: Message['role']
  kind: 'user' | 'assistant' | 'tool_results'
  content: Message['content']
  metadata: JsonObject | null
  at: Date
}

/** One row of `tool_calls`: the ledger. */
export interface ToolCallRow {
  callId: string
  run: number
  turn: number
  index: number
  tool: string
  effect: string
  key: string | null
  input: Json
  status: ToolCallStatus
  attempt: number
  result: Json
  error: { code: string; message: string } | null
  effectId: string | null
  replayOf: string | null
  worker: string | null
  issuedAt: Date
  completedAt: Date | null
}

/** One row of `errors`: a failed attempt, or (without an attempt) the failure of a whole run. */
export interface ErrorRow {
  seq: number
  run: number | null
  turn: number | null
  /** `model`, `tool:<name>` or `run`. */
  context: string
  callId: string | null
  attempt: number | null
  class: string
  code: string | null
  message: string
  retryable: boolean
  worker: string | null
  at: Date
}

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

  session(sessionId: string): Promise<SessionRow | null>
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
  toolCalls(sessionId: string): Promise<ToolCallRow[]>
  errors(sessionId: string): Promise<ErrorRow[]>

  /** Asking over sessions. */
  readonly lists: Lists
  /** Values too large for history. */
  readonly blobs: Blobs
  /** Pruning, erasing, and what restoring rows needs. */
  readonly upkeep: Upkeep

  /** Calls back when something of the session (`'*'`: of any) was committed, or may have been: wakes only, read from a cursor. */
  watch(sessionId: string, wake: () => void): () => void
  close(): Promise<void>
}
