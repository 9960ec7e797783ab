// The rows that readers of the side store get.
import type { Message, Usage } from '../session/content.ts'
import type { SessionEvent, SessionStatus, ToolCallStatus, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'

/** A session's head: how far its events are stored. */
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
  /** The caller's `messageId` for a user's message, `m_<run>_<turn>` for the model's, `r_<run>_<turn>` for tool results. */
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

/** One row of `tool_calls`. */
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

/** A session in a list. */
export interface ListedSession extends SessionRow {
  /** The session that it was forked from, and the last inherited event. */
  parent: string | null
  forkedSeq: number | null
  /** The model of the newest turn. */
  model: string | null
  provider: string | null
  /** Cost in US dollars; null without a known price. */
  usd: number | null
  /** Version of the newest checkpoint; 0: none. */
  checkpoint: number
  /** Calls that wait for a person or a client. */
  waiting: number
  flushedAt: Date
  prunedAt: Date | null
  erasedAt: Date | null
}

/** Reference to a content block whose value is too large for the row. */
export interface BlobPlace {
  /** Index of the block; null: the whole content. */
  block: number | null
  sha256: string
  bytes: number
}

/** A message in a list. */
export interface ListedMessage extends MessageRow {
  sessionId: string
  agent: string
  /** The tool calls that an answer requested, or whose results the message has. */
  callIds: string[]
  blobs: BlobPlace[]
}

/** A message that is no longer part of the transcript. */
export interface ArchivedMessage extends ListedMessage {
  /** The event that removed it from the transcript; null: it was in the transcript when the session was pruned. */
  archivedSeq: number | null
  archivedAt: Date | null
  why: 'rolled_back' | 'restarted' | 'begun_afresh' | 'pruned'
}

/** A checkpoint in a list, without its state. */
export interface ListedCheckpoint {
  sessionId: string
  version: number
  agent: string
  run: number | null
  turn: number | null
  seq: number
  upToSeq: number
  /** Id of the transcript's last message at that point; null: none. */
  lastMessageId: string | null
  reason: string
  by: string | null
  /** Version of the state's encoding. */
  stateVersion: number
  createdAt: Date
  /** The rollback that went back behind the checkpoint; null: none did. A fork may begin at either kind. */
  archivedSeq: number | null
}

/** A tool call in a list. */
export interface ListedToolCall extends ToolCallRow {
  sessionId: string
  agent: string
  startedAt: Date | null
  /** The last progress that an attempt reported. */
  progress: Json
  /** When its wait for a person or a client expires. */
  waitingUntil: Date | null
  /** The request for approval and the decision. */
  approval: Json
  /** sha256 of a result that is too large for the row. */
  resultBlob: string | null
  /** Who resolved an unknown outcome: `verify` or a person's name. */
  resolvedBy: string | null
  note: string | null
  milestones: string[]
}

/** What a call waits for: an approval, a client's answer, or the resolution of an unknown outcome. */
export type PendingKind = 'approval' | 'client' | 'unknown'

/** A call that waits for a person or a client. */
export interface ListedPending {
  kind: PendingKind
  sessionId: string
  agent: string
  /** The session's. */
  tags: string[]
  callId: string
  run: number
  turn: number
  tool: string
  effect: string
  input: Json
  /** Digest of tool and arguments, for `approve` and `deny`. */
  digest: string | null
  /** The tool's reason for the approval, or the message of an unknown outcome. */
  reason: string | null
  /** Number of attempts. */
  attempt: number
  waitingSince: Date
  /** Null: no limit. */
  expiresAt: Date | null
  /** What happens to a request for approval at its expiry; null for other kinds. */
  onExpiry: 'deny' | 'error' | null
}

/** A failed attempt, or the failure of a whole run, in a list. */
export interface ListedError extends ErrorRow {
  sessionId: string
  agent: string
  /** Milliseconds until the next attempt, if one followed. */
  nextDelayMs: number | null
}

/** How usage can be grouped. */
export type UsageBy = 'agent' | 'day' | 'model' | 'session'

/** Usage of one agent, day (UTC, `2026-11-21`), model or session. */
export interface UsageSum {
  key: string
  /** Model calls that completed. */
  calls: number
  usage: Usage
  /** US dollars of the calls whose price is known. */
  usd: number
  /** Calls whose price is not known: they are not in `usd`. */
  unpriced: number
}

/** An event of any session. */
export interface FeedItem {
  sessionId: string
  agent: string
  event: SessionEvent
}

/** A position in a list's order: where the next page begins. */
export type Key = (string | number | null)[]

/** Rows of a list, and where the next page begins; absent `next`: there are no more. */
export interface Rows<T> {
  items: T[]
  next?: Key
}

/** Paging. */
export interface Paging {
  limit: number
  after?: Key
}

/** A time span: from `since`, before `until`. */
export interface Span {
  since?: Date
  until?: Date
}

/** Which sessions. */
export interface SessionFilter extends Span {
  status?: SessionStatus[]
  agent?: string
  /** Sessions that have all of these. */
  tags?: string[]
}

/** Which errors. */
export interface ErrorFilter extends Span {
  session?: string
  context?: string
}

/** Which tool calls. */
export interface ToolCallFilter extends Span {
  session?: string
  status?: ToolCallStatus[]
  tool?: string
}

/** Which pending calls. */
export interface PendingFilter {
  kind?: PendingKind[]
  agent?: string
  /** Of sessions that have all of these. */
  tags?: string[]
  session?: string
}

/** Which usage, and its grouping. */
export interface UsageFilter extends Span {
  by: UsageBy
  session?: string
}
