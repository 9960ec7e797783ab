// How the outside speaks with a session's workflow: names and JSON of its signals, queries and updates. Documented in docs/protocol.md.
import type { UserBlock } from './content.ts'
import type { BlobRef, EffectReport, ResultContent, SessionEvent, Target, Watermark } from './events.ts'
import type { Json, JsonObject } from './json.ts'
import type { SessionError, SessionState } from './state.ts'

/** Workflow type of a session. */
export const WORKFLOW_TYPE = 'pawlSession'
/** Task queue where nobody says another. */
export const DEFAULT_TASK_QUEUE = 'pawl'
/** The task queue of pawl's own activities, beside that of a worker. */
export function ownTaskQueue(taskQueue: string): string {
  return `${taskQueue}:pawl`
}

/** A workflow task that was killed half way is noticed after this: the shortest that leaves a slow replay room. */
export const WORKFLOW_TASK_TIMEOUT_MS = 3_000
/** Version of fold, decisions and event encoding; an execution keeps the one it started with. */
export const CORE_VERSION = 1

export const SIGNALS = { message: 'message', interrupt: 'interrupt', close: 'close', lateResult: 'late_result' } as const
export const QUERIES = { state: 'state', events: 'events' } as const
export const UPDATES = {
  recover: 'recover',
  resume: 'resume',
  checkpoint: 'checkpoint',
  rollback: 'rollback',
  fork: 'fork',
  approve: 'approve',
  deny: 'deny',
  resolve: 'resolve',
  answer: 'answer',
} as const

/** The workflow id of a session. */
export function workflowIdOf(sessionId: string): string {
  return `pawl:${sessionId}`
}

/** The session of a workflow id. */
export function sessionIdOf(workflowId: string): string {
  return workflowId.slice('pawl:'.length)
}

const SESSION_ID = /^[A-Za-z0-9._:/@-]{1,200}$/

/** Whether `id` may name a session: 1 to 200 of `[A-Za-z0-9._:/@-]`. */
export function isSessionId(id: unknown): id is string {
  return typeof id === 'string' && SESSION_ID.test(id)
}

/** What may name an agent. */
const AGENT_NAME = /^[A-Za-z0-9._-]{1,100}$/

/** Whether `name` may name an agent: 1 to 100 of `[A-Za-z0-9._-]`. */
export function isAgentName(name: unknown): name is string {
  return typeof name === 'string' && AGENT_NAME.test(name)
}

/** The one argument of the signal `message`. `agent` and `context` count when the session is new. */
export interface MessageSignal {
  messageId?: string
  content: string | UserBlock[]
  metadata?: JsonObject
  agent?: string
  context?: Json
  /** The content lies in the side store, for it is too large for a signal; `content` is then how it begins. */
  blob?: BlobRef
}

/** The one argument of the signals `interrupt` and `close`. */
export interface StopSignal {
  reason?: string
  by?: string
}

/** The one argument of the signal `late_result`: an attempt that had been given up for lost has completed. Workers send it. */
export interface LateResultSignal {
  callId: string
  attempt: number
  startedAt: number
  worker: string
  value?: Json
  content?: ResultContent
  blob?: BlobRef
  effectId?: string
}

/** The argument of the update `recover`. */
export interface RecoverRequest {
  strategy: 'restart_run' | 'abandon'
  by?: string
}

/** How a session stands, in few words: the answer of the updates `resume` and `recover`. The query `state` tells more. */
export type SessionSummary = Pick<SessionState, 'sessionId' | 'agent' | 'status' | 'seq' | 'run' | 'turns' | 'error'>

/** The answer of the query `state` before the session is open. `error`: why it is not open yet, where that takes long. */
export type Unopened = { status: 'loading'; error?: undefined } | { status: 'error'; error: SessionError }

/** The argument of the update `checkpoint`; answers `{ version }`. */
export interface CheckpointRequest {
  reason: string
  by?: string
}

/** The argument of the update `rollback`; answers `Moved`. A run that is going on is interrupted first. */
export interface RollbackRequest {
  target: Target
  reason?: string
  by?: string
}

/** What going back left behind. */
export interface Moved {
  /** The last event that counts. */
  toSeq: number
  /** Effects that completed, or may have, and are not undone: the newest 100. */
  effects: EffectReport[]
  /** How many more there are. */
  moreEffects: number
}

/** The argument of the update `fork` of the session that is forked from; answers `ForkPoint`. */
export interface ForkRequest {
  target?: Target
  /** Whether a run that is going on is stopped first. Default true. */
  interrupt?: boolean
  by?: string
}

/** Where a fork begins. */
export interface ForkPoint extends Moved {
  digest: string
}

/** Decides a call that awaits approval. `digest`: of the arguments that were looked at, as `approval_requested` says. */
export interface ApproveRequest {
  callId: string
  digest: string
  by?: string
  note?: string
  /** Other arguments to execute it with, in place of the model's. */
  input?: Json
}

/** Denies a call that awaits approval. */
export interface DenyRequest {
  callId: string
  digest: string
  by?: string
  note?: string
  /** What the model is told. */
  reason?: string
}

/** Says what became of a call whose outcome is unknown. */
export interface ResolveRequest {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** That it happened, and with which result; that it did not; that it is to be executed again; or that the model is told it was skipped. */
  resolution: { happened: true; result: Json } | { happened: false } | 'retry' | 'skip'
  /** Who asked for it: at most 1,000 bytes. */
  by?: string
  /** What there is to say about it: at most 4,000 bytes. */
  note?: string
}

/** Answers a call of a client tool. */
export interface AnswerRequest {
  callId: string
  result: Json
  by?: string
}

/** The argument of the query `events`. */
export interface EventsQuery {
  /** Only events above this `seq`. Default 0. */
  after?: number
  /** About how many bytes of JSON at most; at least one event is given. Default 1,000,000. */
  maxBytes?: number
}

/** The answer of the query `events`: what this execution holds. */
export interface EventsPage {
  epoch: string
  executionId: string
  /** The last event before this execution's own ones; older events are in the store and in `previous` executions. */
  base: Watermark
  events: SessionEvent[]
  /** The place before the first of `events`, and of the last one. */
  from: Watermark
  to: Watermark
  /** Whether there is more above `to`. */
  more: boolean
  /** The execution before this one in the chain. */
  previous?: string
}

/** What a session is when its workflow starts; all but `sessionId` is optional for a foreign client. */
export interface SessionStart {
  sessionId: string
  agent?: string
  context?: Json
  tags?: string[]
  /** The session does not exist yet: no look-up in the store is needed. */
  isNew?: true
  settings?: SessionSettings
  /** The session must exist: it is to be gone on with, not started. */
  mustExist?: true
  /** It is a fork of another session. */
  fork?: ForkStart
  /** From the execution before, at continue-as-new. */
  carried?: Carried
}

/** Of what a session is a fork. */
export interface ForkStart {
  from: string
  /** The last event of the other session that is this one's past too. */
  seq: number
  digest: string
  target?: Target
  keys: 'carried' | 'forgotten'
  by?: string
}

/** What may be set for a session at its start. */
export interface SessionSettings {
  idleTimeoutMs?: number
  notServedAfterMs?: number
}

/** What continue-as-new carries over. */
export interface Carried {
  coreVersion: number
  /** What the session was when it decided to go on, bounded (`snapshotOf`); the events up to there are in the store. */
  state: SessionState
  /** Of the last event that is folded into `state`. */
  digest: string
  /** The events since, which came while the store took those before them; absent: none. */
  tail?: SessionEvent[]
  previous: string
  /** Somebody asked for the session to be closed. */
  closing?: Closing
}

/** That a session is to be closed: when nothing is left to do, or now, with what waits left for whoever resumes it. */
export interface Closing {
  when: 'idle' | 'now'
  by?: string
}
