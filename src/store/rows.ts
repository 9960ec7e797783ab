// The rows that readers of the side store are given.
import type { Message, Usage } from '../session/content.ts'
import type { SessionEvent, SessionStatus, ToolCallStatus, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'

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

/** A session in a list. */
export interface ListedSession extends SessionRow {
  /** The session that it was forked from, and the last event that is that one's. */
  parent: string | null
  forkedSeq: number | null
  /** Of the newest turn. */
  model: string | null
  provider: string | null
  /** What its turns have cost, in US dollars; null where no price is known. */
  usd: number | null
  /** Version of the newest checkpoint; 0: there is none. */
  checkpoint: number
  /** Calls that wait for somebody outside. */
  waiting: number
  flushedAt: Date
  prunedAt: Date | null
  erasedAt: Date | null
}

/** Where a content block of a message lies whose value is too large for the row. */
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
  /** The tool calls that an answer asked for, or whose results these are. */
  callIds: string[]
  blobs: BlobPlace[]
}

/** A message that is no longer part of the transcript. */
export interface ArchivedMessage extends ListedMessage {
  /** The event that took it out of the transcript; null: it stood there when it was pruned. */
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
  /** Id of the transcript's last message there; null: none. */
  lastMessageId: string | null
  reason: string
  by: string | null
  /** Version of the state's encoding. */
  stateVersion: number
  createdAt: Date
  /** The event that went back behind it; null: it lies in the session's present. A fork may begin at either. */
  archivedSeq: number | null
}

/** A tool call in a list. */
export interface ListedToolCall extends ToolCallRow {
  sessionId: string
  agent: string
  startedAt: Date | null
  /** The last that an attempt said of how far it is. */
  progress: Json
  /** Until when it waits for somebody outside. */
  waitingUntil: Date | null
  /** What was asked of whom, and how it was decided. */
  approval: Json
  /** sha256 of a result that is too large for the row. */
  resultBlob: string | null
  /** `verify` or a person's name: who said what became of an unknown call. */
  resolvedBy: string | null
  note: string | null
  milestones: string[]
}

/** For what a call waits: approval, a client's answer, or somebody who knows what became of it. */
export type PendingKind = 'approval' | 'client' | 'unknown'

/** A call that waits for somebody. */
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
  /** Of tool and arguments: what `approve` and `deny` want. */
  digest: string | null
  /** Why approval is needed, as the tool says it; or what is known of an unknown call. */
  reason: string | null
  /** Attempts that were made. */
  attempt: number
  waitingSince: Date
  /** Null: it waits without end. */
  expiresAt: Date | null
  /** What becomes of a request for approval then; null for other kinds. */
  onExpiry: 'deny' | 'error' | null
}

/** A failed attempt, or the failure of a whole run, in a list. */
export interface ListedError extends ErrorRow {
  sessionId: string
  agent: string
  /** Milliseconds until the next attempt, if one followed. */
  nextDelayMs: number | null
}

/** What usage can be added up by. */
export type UsageBy = 'agent' | 'day' | 'model' | 'session'

/** Usage of one agent, day (UTC, `2026-11-21`), model or session. */
export interface UsageSum {
  key: string
  /** Model calls that completed. */
  calls: number
  usage: Usage
  /** US dollars, of the calls whose price is known. */
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

/** Part of a list's order: where the next page begins. */
export type Key = (string | number | null)[]

/** Rows of a list, and where the next ones begin; no `next`: these are the last. */
export interface Rows<T> {
  items: T[]
  next?: Key
}

/** How much of a list is read. */
export interface Paging {
  limit: number
  after?: Key
}

/** A span of time: from `since` on, before `until`. */
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

/** Which calls that wait. */
export interface PendingFilter {
  kind?: PendingKind[]
  agent?: string
  /** Of sessions that have all of these. */
  tags?: string[]
  session?: string
}

/** Which usage, and by what it is added up. */
export interface UsageFilter extends Span {
  by: UsageBy
  session?: string
}
