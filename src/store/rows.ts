// The rows that readers of the side store get.
import type { Message, Usage } from '../session/content.ts'
import type { RecoveryStrategy, SessionEvent, SessionStatus, ToolCallStatus, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { Paused, SessionError } from '../session/state.ts'

/** A session's head: how far its events are stored. */
export interface StoredHead extends Watermark {
  epoch: string
}

/** One row of `sessions`. */
export interface SessionRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** How it stands. */
  status: SessionStatus
  /** The first execution of the chain that wrote its events. */
  epoch: string
  /** Number of its last run. */
  run: number
  /** Turns so far. */
  turns: number
  /** Whom it is for. */
  context: Json
  /** What lists can be filtered by. */
  tags: string[]
  /** Why it is in `error`. */
  error: SessionError | null
  /** Since when it is paused, by whom and why; null: it is not. */
  paused: Paused | null
  /** Tokens used. */
  usage: Usage
  /** The last event that is stored. */
  flushedSeq: number
  /** When it was created. */
  createdAt: Date
  /** When its last event happened. */
  updatedAt: Date
}

/** One row of `messages`: a message of the transcript, as the model sees it. */
export interface MessageRow {
  /** The caller's `messageId` for a user's message, `m_<run>_<turn>` for the model's, `r_<run>_<turn>` for tool results. */
  messageId: string
  /** The event that brought it. */
  seq: number
  /** Absent while no run has taken the message. */
  run: number | null
  /** The turn that took it, or that it is the answer of. */
  turn: number | null
  /** Who speaks, in the shape of the Messages API. */
  role: Message['role']
  /** Whose message it is. */
  kind: 'user' | 'assistant' | 'tool_results'
  /** Text, or content blocks. */
  content: Message['content']
  /** What the caller sent along. */
  metadata: JsonObject | null
  /** Who sent it, as the sender says. */
  by: string | null
  /** When it was accepted. */
  at: Date
}

/** One row of `tool_calls`. */
export interface ToolCallRow {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** Place of the call among the turn's calls, from 0. */
  index: number
  /** The tool's name. */
  tool: string
  /** The tool's effect. */
  effect: string
  /** The idempotency key; null for a `read`. */
  key: string | null
  /** The arguments that it is executed with. */
  input: Json
  /** The model's own arguments, if a hook or a person changed them; otherwise null. */
  modelInput: Json
  /** How the call stands. */
  status: ToolCallStatus
  /** Attempts so far. */
  attempt: number
  /** What it returned. */
  result: Json
  /** Why it failed. */
  error: { code: string; message: string } | null
  /** The effect's name in the outside world. */
  effectId: string | null
  /** The call whose result it was given instead of being executed. */
  replayOf: string | null
  /** Which worker process it was (`host:pid`); null: not known. */
  worker: string | null
  /** When the model asked for it. */
  issuedAt: Date
  /** When it ended. */
  completedAt: Date | null
}

/** That a part of a conversation was replaced by a summary, for the model. */
export interface ListedCompaction {
  /** The event that records it. */
  seq: number
  /** Number of the run. */
  run: number
  /** Number of the turn before whose model call it was made. */
  turn: number
  /** When. */
  at: Date
  /** The last event of what the summary replaces; 0: nothing is replaced, results are shortened. */
  upToSeq: number
  /** Of everything up to there. */
  summary: string
  /** How many messages it replaces beside those that the summary before it has replaced. */
  messages: number
  /** Tokens of the request that was too large, measured or estimated. */
  tokens: number
  /** Tokens that the model had room for. */
  window: number
  /** Whether the provider had refused the request. */
  forced: boolean
  /** Bytes to which results of earlier calls were shortened; null: they were not. */
  resultBytes: number | null
  /** The model that wrote the summary; null: none of pawl's asking. */
  model: string | null
}

/** One row of `errors`: a failed attempt, or (without an attempt) the failure of a whole run. */
export interface ErrorRow {
  /** The event that records it. */
  seq: number
  /** Number of the run. */
  run: number | null
  /** Number of the turn. */
  turn: number | null
  /** `model`, `tool:<name>`, `compaction`, `checkpoint` or `run`. */
  context: string
  /** The tool call, if it was one. */
  callId: string | null
  /** Number of the attempt, from 1; null: the whole run failed. */
  attempt: number | null
  /** Class name of what was thrown, or `WorkerDied`, `HeartbeatTimeout`, `Timeout`. */
  class: string
  /** The error's own code. */
  code: string | null
  /** What went wrong. */
  message: string
  /** Whether another attempt was allowed. */
  retryable: boolean
  /** Which worker process it was (`host:pid`); null: not known. */
  worker: string | null
  /** The model that failed; null: it was not a model. */
  model: string | null
  /** When it happened. */
  at: Date
}

/** A session in a list. */
export interface ListedSession extends SessionRow {
  /** The session that it was forked from, and the last inherited event. */
  parent: string | null
  /** The last event that the session has from `parent`. */
  forkedSeq: number | null
  /** The model of the newest turn. */
  model: string | null
  /** Provider of that model. */
  provider: string | null
  /** Cost in US dollars; null without a known price. */
  usd: number | null
  /** Version of the newest checkpoint; 0: none. */
  checkpoint: number
  /** Calls that wait for a person or a client. */
  waiting: number
  /** When its events were stored last. */
  flushedAt: Date
  /** When it was pruned. */
  prunedAt: Date | null
  /** When it was erased. */
  erasedAt: Date | null
}

/** Reference to a content block whose value is too large for the row. */
export interface BlobPlace {
  /** Index of the block; null: the whole content. */
  block: number | null
  /** Of the JSON text, in hex: what `session.blob` wants. */
  sha256: string
  /** Of the JSON text, in UTF-8. */
  bytes: number
}

/** A message in a list. */
export interface ListedMessage extends MessageRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The tool calls that an answer requested, or whose results the message has. */
  callIds: string[]
  /** Values that are too large for the row. */
  blobs: BlobPlace[]
}

/** A message that is no longer part of the transcript. */
export interface ArchivedMessage extends ListedMessage {
  /** The event that removed it from the transcript; null: it was in the transcript when the session was pruned. */
  archivedSeq: number | null
  /** When it was archived; null: before pawl noted that. */
  archivedAt: Date | null
  /** What took it out of the transcript. */
  why: 'rolled_back' | 'restarted' | 'recovered' | 'abandoned' | 'begun_afresh' | 'forked' | 'pruned'
}

/** A checkpoint in a list, without its state. */
export interface ListedCheckpoint {
  /** The session's id. */
  sessionId: string
  /** The checkpoint's number, from 1. */
  version: number
  /** The agent's name. */
  agent: string
  /** Number of the run within the session, from 1. */
  run: number | null
  /** Number of the turn within the run, from 1. */
  turn: number | null
  /** The event that made it. */
  seq: number
  /** The last event before it. */
  upToSeq: number
  /** Id of the transcript's last message at that point; null: none. */
  lastMessageId: string | null
  /** Why it was made. */
  reason: string
  /** Who asked for it; null: the policy. */
  by: string | null
  /** Version of the state's encoding. */
  stateVersion: number
  /** When it was created. */
  createdAt: Date
  /** The rollback that went back behind the checkpoint; null: none did. A fork may begin at either kind. */
  archivedSeq: number | null
}

/** A tool call in a list. */
export interface ListedToolCall extends ToolCallRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** When the newest attempt began. */
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
  /** What that person said about it. */
  note: string | null
  /** Names of the milestones that it reached. */
  milestones: string[]
}

/** What a call waits for: an approval, a client's answer, or the resolution of an unknown outcome. */
export type PendingKind = 'approval' | 'client' | 'unknown'

/** A call that waits for a person or a client. */
export interface ListedPending {
  /** For what it waits. */
  kind: PendingKind
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The session's. */
  tags: string[]
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The tool's name. */
  tool: string
  /** The tool's effect. */
  effect: string
  /** The arguments that it would be executed with. */
  input: Json
  /** The model's own arguments, if a hook or a person changed them; otherwise null. */
  modelInput: Json
  /** Digest of tool and arguments, for `approve` and `deny`. */
  digest: string | null
  /** The tool's reason for the approval, or the message of an unknown outcome. */
  reason: string | null
  /** Number of attempts. */
  attempt: number
  /** Since when it waits. */
  waitingSince: Date
  /** Null: no limit. */
  expiresAt: Date | null
  /** What happens to a request for approval at its expiry; null for other kinds. */
  onExpiry: 'deny' | 'error' | null
}

/** One run of a session, as far as it is stored. */
export interface ListedRun {
  /** Number of the run within the session, from 1. */
  run: number
  /** When it began. */
  startedAt: Date
  /** How and when it ended; null: it has not, it failed, or a recovery or rollback has left it. */
  end: { how: 'completed' | 'interrupted'; at: Date } | null
  /** Its tool calls in the order in which the model asked for them. */
  calls: ListedToolCall[]
  /** Its failed attempts and failures, in the order in which they happened. */
  failures: ListedError[]
  /** The model's answers. */
  answers: { turn: number; model: string; at: Date }[]
  /** Turns that have left the transcript. */
  archivedTurns: number[]
}

/** A failed attempt, or the failure of a whole run, in a list. */
export interface ListedError extends ErrorRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** Milliseconds until the next attempt, if one followed. */
  nextDelayMs: number | null
}

/** A session in `error`. */
export interface SessionInError {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** Why it is in `error`. */
  error: SessionError
}

/** How usage can be grouped. */
export type UsageBy = 'agent' | 'day' | 'model' | 'session'

/** Usage of one agent, day (UTC, `2026-11-21`), model or session. */
export interface UsageSum {
  /** The agent, day, model or session. */
  key: string
  /** Model calls that completed. */
  calls: number
  /** Tokens used. */
  usage: Usage
  /** US dollars of the calls whose price is known. */
  usd: number
  /** Calls whose price is not known: they are not in `usd`. */
  unpriced: number
}

/**
 * What an open session needs: that a person recovers it, resolves an unknown outcome, decides on an approval, or unpauses it; `automatic`: that
 * the cause of its error ends, or its next attempt succeeds; a look, because nothing was stored for minutes while it runs; a client's answer; or nothing.
 */
export type SessionNeed = 'recovery' | 'resolution' | 'approval' | 'unpausing' | 'automatic' | 'look' | 'answer' | 'nothing'

/** An open session in the overview. */
export interface OverviewSession extends Pick<SessionRow, 'sessionId' | 'agent' | 'status' | 'run' | 'error'> {
  /** What it needs most. */
  needs: SessionNeed
  /** Since when: of the error, or of the oldest request; for a session that runs, its last event. */
  since: Date
  /** Tools of the calls that wait for a person or a client. */
  tools: string[]
}

/** The open sessions by what they need. */
export interface StatusOverview {
  /** Sessions by status; closed ones are not counted. */
  sessions: Record<Exclude<SessionStatus, 'closed'>, number>
  /** Sessions that are in an error, waiting, running or paused, by what they need most. */
  needs: Record<SessionNeed, number>
  /** Those sessions, most urgent need first, longest wait first; only as many as were asked for. */
  items: OverviewSession[]
}

/** Statistics of the failures in a time span. */
export interface FailureReport {
  /** The beginning of the time span. */
  since: Date
  /** How often runs failed, most failures first. */
  agents: AgentFailures[]
  /** Sessions that failed in the same way more than once, most failures first. */
  repeated: RepeatedFailure[]
  /** What recoveries led to, most recoveries first. */
  recoveries: RecoveryOutcomes[]
  /** How long sessions were in errors, longest total first. */
  timeInError: TimeInError[]
}

/** How often an agent's runs failed. */
export interface AgentFailures {
  /** The agent's name. */
  agent: string
  /** Runs that a model answered, or that failed, within the time span. */
  runs: number
  /** Runs that failed, however they continued. */
  failed: number
  /** Runs that only waited in errors that end by themselves, such as `agent_not_served`. */
  heldUp: number
  /** Failed attempts of model calls and tool calls. */
  failedAttempts: number
}

/** A session that failed in the same way more than once. */
export interface RepeatedFailure {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often the session entered this error. */
  times: number
  /** How many of its runs did. */
  runs: number
  /** When it did for the first time within the time span. */
  first: Date
  /** When it did last. */
  newest: Date
}

/** What an agent's recoveries with one strategy led to. */
export interface RecoveryOutcomes {
  /** The agent's name. */
  agent: string
  /** The strategy; null: requests that named none and were refused. */
  strategy: RecoveryStrategy | null
  /** Whether pawl made them by the agent's policy, not a person. */
  automatic: boolean
  /** How many there were. */
  recoveries: number
  /** The run then completed. An abandoned run does not. */
  completed: number
  /** The run then failed again. */
  failed: number
  /** The run has not ended yet. */
  unfinished: number
  /** Requests that were refused; they are not in `recoveries`. */
  refused: number
}

/** How long an agent's sessions were in one kind of error. */
export interface TimeInError {
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often sessions entered it. */
  times: number
  /** How many of them are still in it. */
  open: number
  /** Milliseconds, of all of them together. */
  totalMs: number
  /** Half of them lasted longer. */
  medianMs: number
  /** The longest one. */
  longestMs: number
}

/** An event of any session. */
export interface FeedItem {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The event. */
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
  paused?: boolean
  agent?: string
  /** Sessions that have all of these. */
  tags?: string[]
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which sessions in error; the time span is that in which they entered it. */
export interface InErrorFilter extends Span {
  session?: string
  /** With an error of one of these codes. */
  codes?: string[]
  agent?: string
  /** Sessions that have all of these. */
  tags?: string[]
}

/** Which errors. */
export interface ErrorFilter extends Span {
  session?: string
  run?: number
  context?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which tool calls. */
export interface ToolCallFilter extends Span {
  session?: string
  status?: ToolCallStatus[]
  tool?: string
  key?: string
  effectId?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which open sessions. */
export interface OverviewFilter {
  limit: number
  agent?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which failures. */
export interface FailureFilter extends Span {
  since: Date
  agent?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which pending calls. */
export interface PendingFilter {
  kind?: PendingKind[]
  agent?: string
  /** Of sessions that have all of these. */
  tags?: string[]
  session?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Which usage, and its grouping. */
export interface UsageFilter extends Span {
  by: UsageBy
  session?: string
  /** Of sessions whose id begins so. */
  idPrefix?: string
}

/** Events of a session that a transaction has written. */
export interface StoredEvents {
  sessionId: string
  agent: string
  events: readonly SessionEvent[]
}
