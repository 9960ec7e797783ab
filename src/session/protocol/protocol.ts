// The protocol of a session's workflow: names and JSON of its signals, queries and updates. Documented in docs/protocol.md.
import type { BudgetScope } from '../spending/spend.ts'
import type { UserBlock } from '../content.ts'
import type { CustomEvent } from '../hooks/custom-events.ts'
import type { SpendNote } from '../spending/spend-notes.ts'
import type { BlobRef, EffectReport, ResultContent } from '../call-facts.ts'
import type { RecoveryStrategy } from '../agent-facts.ts'
import type { SessionEvent, Target, Unreplayable, Watermark } from '../events.ts'
import type { Json, JsonObject } from '../json.ts'
import type { Pause, SessionError, SessionState } from '../state.ts'
import type { RuleForContext, RememberRequest } from '../standing/facts.ts'
import type { CallWait } from '../watching/waits.ts'
import type { CallingSession, CallingCall, QuestionOutcome } from '../agents/agent-call-facts.ts'

/** Workflow type of a session. */
export const WORKFLOW_TYPE = 'pawlSession'
export const DEFAULT_TASK_QUEUE = 'pawl'
/** The task queue of pawl's own activities, besides the worker's. */
export function ownTaskQueue(taskQueue: string): string {
  return `${taskQueue}:pawl`
}

/**
 * Timeout of a workflow task, in milliseconds. The server notices a lost task only when this time is over, so it is as short as slow
 * replays allow.
 */
export const WORKFLOW_TASK_TIMEOUT_MS = 3_000
/** Version of fold, decisions and event encoding; an execution keeps the version that it started with. */
export const CORE_VERSION = 1

export const SIGNALS = {
  message: 'message',
  interrupt: 'interrupt',
  close: 'close',
  lateResult: 'late_result',
  ask: 'ask',
  report: 'report',
} as const
export const QUERIES = { state: 'state', events: 'events' } as const
export const UPDATES = {
  recover: 'recover',
  resume: 'resume',
  checkpoint: 'checkpoint',
  rollback: 'rollback',
  regenerate: 'regenerate',
  fork: 'fork',
  approve: 'approve',
  deny: 'deny',
  resolve: 'resolve',
  answer: 'answer',
  pause: 'pause',
  unpause: 'unpause',
  raise: 'raise',
  revokeRule: 'revoke_rule',
  unschedule: 'unschedule',
} as const
/** The updates that only delay a run. */
export const PAUSES: readonly string[] = [UPDATES.pause, UPDATES.unpause]
/** The updates that decide about a call. */
export const DECISIONS: readonly string[] = [UPDATES.approve, UPDATES.deny, UPDATES.answer, UPDATES.resolve]

/** The workflow id of a session. */
export function workflowIdOf(sessionId: string): string {
  return `pawl:${sessionId}`
}

/** The session id in a workflow id. */
export function sessionIdOf(workflowId: string): string {
  return workflowId.slice('pawl:'.length)
}

/** The session id in the workflow id; undefined if the workflow id is not one of pawl's. */
export function sessionIn(workflowId: string): string | undefined {
  return workflowId.startsWith('pawl:') ? sessionIdOf(workflowId) : undefined
}

const SESSION_ID = /^[A-Za-z0-9._:/@-]{1,200}$/

/** Whether `id` is a valid session id: 1 to 200 of `[A-Za-z0-9._:/@-]`. */
export function isSessionId(id: unknown): id is string {
  return typeof id === 'string' && SESSION_ID.test(id)
}

/** Valid agent names. */
const AGENT_NAME = /^[A-Za-z0-9._-]{1,100}$/

/** Whether `name` is a valid agent name: 1 to 100 of `[A-Za-z0-9._-]`. */
export function isAgentName(name: unknown): name is string {
  return typeof name === 'string' && AGENT_NAME.test(name)
}

/** The argument of the signal `message`. `agent` and `context` are used when the session is new. */
export interface MessageSignal {
  messageId?: string
  content: string | UserBlock[]
  metadata?: JsonObject
  /** Who sent it. */
  by?: string
  agent?: string
  context?: Json
  /** Set if the content is too large for a signal: it is in the side store, and `content` is its beginning. */
  blob?: BlobRef
  /** Whether to interrupt a run in progress; the message then opens the next run. */
  interrupt?: boolean
  /** Milliseconds, from when the session accepts the message, within which the run that accepts it must end. */
  deadlineMs?: number
  /** The session rejects it with `overlap_skipped` if a run is in progress, or messages wait for one. */
  unlessBusy?: boolean
  /** When the session delivers it, in milliseconds since 1970; a time that has passed is now. The deadline counts from then. */
  at?: number
  /** From when the deadline counts, in milliseconds since 1970: set when an execution passes on a message that it had received. */
  receivedAt?: number
  /** The sender's span, by W3C Trace Context. The run that accepts the message is linked to it. Anything else is ignored. */
  traceparent?: string
}

/** Why a run was interrupted by a message. */
export const REPLACED = 'replaced by a later message'

/** The argument of the signals `interrupt` and `close`. */
export interface StopSignal {
  reason?: string
  by?: string
  /** Identifies the request: an execution carries out each once. */
  id?: string
  /** Of `interrupt`: the run that is meant. Once it is over, the request changes nothing. Default: the one in progress. */
  run?: number
}

/** The argument of the signal `late_result`: an abandoned attempt has completed. Only workers send it. */
export interface LateResultSignal {
  callId: string
  attempt: number
  startedAt: number
  worker: string
  value?: Json
  content?: ResultContent
  blob?: BlobRef
  effectId?: string
  /** What the attempt reported with `ctx.emit`. */
  emitted?: CustomEvent[]
  /** What the attempt reported with `ctx.spend`. */
  spent?: SpendNote[]
}

/** The argument of the signal `ask`: the question of a session that calls this one's agent. Only workers send it. Sent again, it changes nothing. */
export interface AskSignal {
  caller: CallingSession
  call: CallingCall
  agent: string
  /** The agent of the caller. */
  by: string
  content: string
  /** The caller no longer needs the answer: the run in progress ends. */
  stop?: true
}

/** The argument of the signal `report`: how the question of a call ended in the session that answers it. Only workers send it. */
export interface ReportSignal {
  /** The call's idempotency key. */
  key: string
  /** The session that answers. */
  child: string
  agent: string
  /** The call for which the question was first asked. */
  call: CallingCall
  as: QuestionOutcome['as'] | 'refused'
  value?: Json
  code?: string
  reason?: string
  /** What the session has spent in all, and what it had spent when it last reported. */
  spent: { total: { tokens: number; usd: number }; before: { tokens: number; usd: number } }
}

/** The argument of the update `recover`. */
export interface RecoverRequest {
  /** Absent: the strategy that the session's error names. */
  strategy?: Exclude<RecoveryStrategy, 'manual'>
  /** For `selective`: ids of calls of the failed turn whose results stay. */
  keep?: string[]
  /** Ids of calls that the model is told were skipped. */
  skip?: string[]
  /** Ids of calls that are made again. */
  redo?: string[]
  /** Whether completed effects may happen again. Needs `by`. */
  force?: boolean
  /** The newest event that the sender has seen: the request is refused with `session_moved` if a later one changes what it would do. */
  seenSeq?: number
  by?: string
  reason?: string
}

/** A short summary of a session: the answer of the updates `resume` and `recover`. The query `state` returns more. */
export type SessionSummary = Pick<SessionState, 'sessionId' | 'agent' | 'status' | 'seq' | 'run' | 'turns' | 'error'>

/** What only the workflow knows: no event says it. */
export interface QueriedFacts {
  /** Waits of calls. */
  callWaits?: CallWait[]
  /** The run in progress is being stopped. */
  stopping?: true
}

/** The answer of the query `state`. */
export type QueriedState = SessionState & QueriedFacts

/** The answer of the query `state` before the session is open. `error`: the reason, if opening takes a long time. */
export type UnopenedState = { status: 'loading'; error?: undefined } | { status: 'error'; error: SessionError }

/** The argument of the update `checkpoint`; answers `CheckpointAnswer`. */
export interface CheckpointRequest {
  reason: string
  by?: string
}

/** The checkpoint that a request makes. */
export interface CheckpointAnswer {
  /** Its number. */
  version: number
  /** Whether it has been made. False if calls of a turn are in progress; the checkpoint is then made when that turn has closed. */
  made: boolean
}

/** The argument of the update `rollback`; answers `RollbackReport`. A run in progress is interrupted first. */
export interface RollbackRequest {
  target: Target
  /** `forgotten`: the effects after the target were undone outside of pawl, so their keys and unknown outcomes no longer count. */
  keys?: 'kept' | 'forgotten'
  /** The newest event that the sender has seen: the request is refused with `session_moved` if a later one changes what it would do. */
  seenSeq?: number
  reason?: string
  by?: string
}

/** The argument of the update `regenerate`; answers `RegenerateAnswer`. A run in progress is interrupted first. */
export interface RegenerateRequest {
  /** The newest event that the sender has seen: the request is refused with `session_moved` if a later one changes what it would do. */
  seenSeq?: number
  reason?: string
  by?: string
}

/** The result of a regeneration: the message that is answered again. */
export interface RegenerateAnswer extends RollbackReport {
  messageId: string
  /** `seq` of the event that took the session back. */
  seq: number
}

/** The result of a rollback. */
export interface RollbackReport {
  /** The event to which the session went back. */
  toSeq: number
  /** Effects that completed, or may have, and were not undone: the newest 100. */
  effects: EffectReport[]
  /** How many more there are. */
  moreEffects: number
}

/** The argument of the update `fork`, sent to the original session; answers `ForkPoint`. */
export interface ForkRequest {
  target?: Target
  /** Whether a run in progress is interrupted first. Default true. */
  interrupt?: boolean
  /** The newest event that the sender has seen: the request is refused with `session_moved` if a later one changes what it would do. */
  seenSeq?: number
  by?: string
}

/** Where a fork begins. */
export interface ForkPoint extends RollbackReport {
  digest: string
}

/** Approves a call. `digest`: the digest of the arguments that the person saw, as in `approval_requested`. */
export interface ApproveRequest {
  callId: string
  digest: string
  by?: string
  /** The roles of the person, as the sender has verified them. */
  roles?: string[]
  note?: string
  /** Arguments to execute it with instead of the model's. */
  input?: Json
  /** Approves later calls without asking. */
  remember?: RememberRequest
  /** pawl's own: a rule for the session's context, which a person gave in another session, approves the call if it still holds. */
  rule?: RuleForContext
}

/** The answer of the update `approve`. */
export interface ApproveAnswer {
  /** Digest of the arguments that are executed. */
  digest: string
  /** The id of the rule that was made, for `remember`. */
  rule?: string
  /** Other calls of the session that waited and that the rule has approved. */
  released?: string[]
}

/** The argument of the update `revoke_rule`: a rule of this session. */
export interface RevokeRuleRequest {
  rule: string
  by?: string
  reason?: string
}

/** Denies a call. */
export interface DenyRequest {
  callId: string
  digest: string
  by?: string
  /** As for `approve`. */
  roles?: string[]
  note?: string
  /** Shown to the model. */
  reason?: string
}

/** Resolves a call whose outcome is unknown. */
export interface ResolveRequest {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** It happened, with this result; it did not happen; execute it again (`retry`); or tell the model that it was skipped (`skip`). */
  resolution: { happened: true; result: Json } | { happened: false } | 'retry' | 'skip'
  /** Who resolves it: at most 1,000 bytes. */
  by?: string
  /** A comment on the decision: at most 4,000 bytes. */
  note?: string
}

/** Answers a call of a client tool, or the question of another call. `digest`: that of the question; another question is then refused. */
export interface AnswerRequest {
  callId: string
  result: Json
  by?: string
  digest?: string
}

/** The argument of the updates `pause` and `unpause`. */
export interface PauseRequest {
  by?: string
  reason?: string
}

/** The answer of the update `pause`. */
export interface PauseAnswer {
  /** When the session was paused, by whom, and why. */
  paused: Pause
  /** Whether it was already paused, so that nothing changed. */
  already: boolean
}

/** The answer of the update `unpause`. */
export interface UnpauseAnswer {
  /** Whether it was not paused, so that nothing changed. */
  already: boolean
}

/** The argument of the update `raise`: at least one limit. A session that ran out of its budget continues. */
export interface RaiseRequest {
  /** US dollars: the new limit, not the increase. */
  maxUsd?: number
  /** Tokens: the new limit, not the increase. */
  maxTotalTokens?: number
  /** Default `run`: the limit of the run in progress, or of the one that failed. */
  scope?: BudgetScope
  by?: string
  reason?: string
}

/** The answer of the update `raise`. */
export interface RaiseAnswer {
  /** Whether the limits were already as high, so that nothing changed. */
  already: boolean
}

/** The argument of the update `unschedule`: one message, or all. */
export type UnscheduleRequest = ({ messageId: string; all?: undefined } | { all: true; messageId?: undefined }) & {
  by?: string
  reason?: string
}

/** The answer of the update `unschedule`. */
export interface UnscheduleAnswer {
  /** The messages that are not delivered. */
  messageIds: string[]
}

/** The argument of the query `events`. */
export interface EventsQuery {
  /** Only events above this `seq`. Default 0. */
  after?: number
  /** Approximate maximum bytes of JSON; at least one event is returned. Default 1,000,000. */
  maxBytes?: number
  /** Leaves out the events of a closed session that may stay closed: they would never be stored. Default: workers see them. */
  lasting?: true
}

/** The answer of the query `events`: the events of this execution. */
export interface EventsPage {
  epoch: string
  executionId: string
  /** The last event before this execution's own events; older events are in the store and in `previous` executions. */
  base: Watermark
  events: SessionEvent[]
  /** `from`: the position before the first of `events`; `to`: the position of the last one. */
  from: Watermark
  to: Watermark
  /** Whether there are more events above `to`. */
  more: boolean
  /** The execution before this one in the chain. */
  previous?: string
}

/** The argument of the workflow's start. For foreign clients, everything but `sessionId` is optional. */
export interface SessionStart {
  sessionId: string
  agent?: string
  context?: Json
  tags?: string[]
  /** The session has never existed, so no lookup in the store is needed. */
  isNew?: true
  settings?: SessionSettings
  /** Whether the session must already exist, so that it is resumed and never started. */
  mustExist?: true
  /** The execution that this one replaces, because no worker could replay it. `times`: how many in a row, including this one. */
  unreplayable?: Unreplayable & { times: number }
  /** The session is a fork of another one. */
  fork?: ForkStart
  /** The session that calls this one's agent, if this one is new. */
  caller?: CallingSession
  /** From the previous execution, at continue-as-new. */
  carried?: Continuation
}

/** The origin of a fork. */
export interface ForkStart {
  from: string
  /** The last event of the other session that the fork inherits. */
  seq: number
  digest: string
  target?: Target
  keys: 'carried' | 'forgotten'
  by?: string
}

export interface SessionSettings {
  idleTimeoutMs?: number
  notServedAfterMs?: number
  /** How long after its last heartbeat an attempt of a model call or a tool call counts as lost. */
  heartbeatTimeoutMs?: number
  /** The size of a history at which the session continues as new, if smaller than usual. For tests; not a client option. */
  history?: Partial<HistorySize>
  /** How long a call of an agent waits before it asks again, if shorter than usual. For tests; not a client option. */
  askAgainMs?: number
}

/** The size of a Temporal history. */
export interface HistorySize {
  events: number
  bytes: number
}

/** What continue-as-new carries to the next execution. */
export interface Continuation {
  coreVersion: number
  /** The state when the session decided to continue as new, bounded (`snapshotOf`); the events up to then are in the store. */
  state: SessionState
  /** Digest of the last event that is folded into `state`. */
  digest: string
  /** Later events, which arrived during the last flush; absent: none. */
  tail?: SessionEvent[]
  previous: string
  /** Whether the session was asked to close. */
  closing?: Closing
  /** Unused answers of an execution that no worker can replay (`PriorAnswer` of src/calls). */
  inherited?: unknown[]
  /** The newest requests with ids of their senders that were carried out. */
  answered?: AnsweredRequest[]
}

/** A request that must not be carried out again if its sender repeats it. */
export interface AnsweredRequest {
  id: string
  answer?: unknown
}

/** How the id of an update begins that its sender may repeat, also after a continue-as-new. */
export const REQUEST_ID = 'request:'

/** How to close a session: once nothing is left to do, or now, with pending work waiting until the session is resumed. */
export interface Closing {
  when: 'idle' | 'now'
  by?: string
}

/** The details of a refused update. */
export interface UpdateRefusal {
  message: string
}

/** The message of a refused update. A worker with an earlier build refuses without details. */
export function refusalIn({ message, details }: { message: string; details?: unknown[] | null | undefined }): string {
  const [first] = (details ?? []) as (Partial<UpdateRefusal> | null)[]
  return typeof first?.message === 'string' ? first.message : message
}
