// The state of a session: the result of folding its events. Plain JSON, so that it can serve as a snapshot.
import type { Budget, BudgetRaise, BudgetUnit, RunBudget, Spend } from './spending/spend.ts'
import type { StopReason, Usage } from './content.ts'
import type { AgentFacts, RecoveryStrategy, RunLimits } from './agent-facts.ts'
import type { ErrorProgress, ScheduledContent, SessionStatus, Watermark } from './events.ts'
import type { Approvers, RunEffect, Resolution } from './call-facts.ts'
import type { Json, JsonObject } from './json.ts'
import type { MemoryState } from './built-in-tools/memory.ts'
import type { PlanState } from './built-in-tools/plan.ts'
import type { CallAsking } from './question-facts.ts'
import type { AnsweredCall, BackgroundCall, CalledChild, CallerState } from './agents/agent-call-facts.ts'
import type { SessionRule } from './standing/facts.ts'

/** One tool call of the newest answer. */
export interface CallState {
  /** The call's id: `t_<run>_<turn>_<index>`, with `#<generation>` if it was made again. */
  callId: string
  /** Position of the call among the turn's calls, from 0. */
  index: number
  /** The raw arguments; removed when the call has ended. */
  input?: Json
  /** How the worker resolved the call when the model requested it. */
  resolution: Resolution
  /** The call's status. */
  status:
    | 'requested'
    /** Dispatched, or about to be. */
    | 'issued'
    | 'awaiting_approval'
    | 'awaiting_answer'
    /** It waits for a time or a message. */
    | 'asleep'
    /** The outcome is unknown, and a person must resolve it. */
    | 'awaiting_resolution'
    | 'completed'
    | 'failed'
    | 'unknown'
  /** The terms of the request that the call waits for. Times are milliseconds since 1970. */
  asked?: {
    expiresAt?: number
    onExpiry?: 'deny' | 'error'
    digest?: string
    reason?: string
    /** Only a person with this role may decide. */
    approvers?: Approvers
    /** The session that answers the call; `seq`: that of the request. */
    child?: CalledChild & { seq: number }
  }
  /** What its attempts have asked the user, and the replies; absent: nothing. */
  asking?: CallAsking
  /** Whether a person has approved it. */
  approved?: true
  /** Attempts before the call started waiting, or before another build resolved it again. */
  attempts?: number
  /** The last progress that an attempt reported. */
  progress?: Json
}

/** The run in progress, or the one that failed. */
export interface RunState {
  /** Number of the run within the session, from 1. */
  run: number
  /** The message that opened the run. */
  messageId: string
  /** The run that first accepted that message: the scope of default idempotency keys. */
  intent: number
  /** The message's metadata; empty until the run's first answer, which carries it. */
  metadata: JsonObject
  /** When it began, in milliseconds since 1970. */
  startedAt: number
  /** Milliseconds for which the session has been paused since then. They do not count towards the run's deadline. */
  pausedMs?: number
  /**
   * When the agent's deadline starts to count, if not at `startedAt`, because a person recovered the run or pawl restarted an earlier one.
   */
  since?: number
  /** Number of the run's stretch: it grows by one each time the run continues after a rest (`rests`). Absent: the first stretch. */
  stretch?: number
  /** The call of another session that the run answers. */
  answers?: AnsweredCall
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The next step of the run. */
  phase: 'turn_due' | 'model' | 'tools' | 'answered'
  /** Its limits, known from its first model call on, whether that succeeds or fails. */
  limits?: RunLimits
  /** When it must have ended, in milliseconds since 1970: the deadline of its newest message that has one. `seq`: that message's `seq`. */
  deadline?: { seq: number; at: number }
  /** Calls of the newest answer, kept until the next one because a recovery may make them again. */
  calls: CallState[]
  /** Calls of the turn that did not fit into `calls`, because a snapshot is bounded. The events have them. */
  leftOut?: (Pick<CallState, 'callId' | 'status'> & Pick<Resolution, 'tool' | 'inputDigest'>)[]
  /** Why the model last stopped. */
  stopReason?: StopReason
  /** Answers in a row that should have been the run's output but were not. `problem`: the newest one's; `refused`: the model refused. */
  badOutputs?: { count: number; problem: string; refused?: true }
  /** The call that submitted the run's output. */
  outputCall?: string
  /** Whether a hook added something to the output, so that the run continues after the output's call. */
  continues?: true
  /** Tokens used by the run. */
  usage: Usage
  /**
   * What it has spent, including failed attempts, tools and hooks; absent: nothing. A restarted run begins with what the failed one spent.
   */
  spend?: Spend
  /** The limits that were raised for this run; absent: none. */
  raised?: Budget
  /** The limits for which a warning has been recorded. */
  warned?: Partial<Record<BudgetUnit, number>>
  /** The messages that the run's turns have accepted, in order. `restart_run` puts them back into the inbox. */
  taken: QueuedMessage[]
  /** Bytes of the entries in `taken`. */
  takenBytes: number
  /** Whether the run accepted more messages than the state can hold, so that it cannot be restarted. */
  tookMore?: true
  /** Effects that completed, the newest 10. */
  effects: RunEffect[]
  /** How many more there are. */
  moreEffects: number
  /** The turn of the newest effect that completed; `seq`: the event that ended the last of that turn's calls. */
  lastEffect?: { turn: number; seq?: number }
  /** Failed attempts of the newest model call so far. */
  modelAttempts?: number
  /** Id of the transcript's last message before the run. */
  before?: string
  /** The turn in which the run last changed the plan; absent: it has not. */
  planTurn?: number
  /** The turn in which the run last changed the memory; absent: it has not. */
  memoryTurn?: number
  /** `seq` of the newest `model_completed`. */
  answerSeq?: number
  /** The turn of the newest answer. */
  answerTurn?: number
  /** The highest turn so far, while a recovery has taken the run back to an earlier one. */
  lastTurn?: number
  /** Turns that ended without an answer, because messages arrived after their model call had failed. They do not count as model calls. */
  unanswered?: number
  /** Id of the transcript's last message before the newest answer. */
  beforeAnswer?: string
}

/** An accepted message. Its content and metadata are in its `message_received`. */
export interface QueuedMessage {
  /** The message's id. */
  messageId: string
  /** `seq` of its `message_received`. */
  seq?: number
  /** When its run must have ended, in milliseconds since 1970. */
  deadlineAt?: number
  /** The run that first accepted it, if it is back in the inbox. */
  intent?: number
  /** When that run's deadline started to count, if pawl restarted it automatically. */
  since?: number
  /** What the failed run passes on to the run that restarts with this message. */
  budget?: RunBudget
}

/** A message that is delivered later. `seq`: that of its `message_scheduled`; `at`: when it was accepted, in milliseconds since 1970. */
export interface ScheduledEntry extends ScheduledContent {
  seq: number
  at: number
}

export interface AutomaticRecoveries {
  /** How many in a row, without lasting progress. */
  inARow: number
  /** When the newest 100 were made, in milliseconds since 1970. */
  times: number[]
  /** The strategy of the newest one. */
  strategy: RecoveryStrategy
}

/** Why a session is in `error`. */
export interface SessionError {
  /** The code that programs branch on. */
  code: string
  /** What happened, and what to do about it. */
  reason: string
  /** The run that failed, if a run did. */
  run?: number
  /** The turn in which it failed. */
  turn?: number
  /** When the error occurred, in milliseconds since 1970. */
  at: number
  /** The best way to recover. `automatic`: pawl continues automatically once the cause is resolved. */
  strategy: RecoveryStrategy | 'automatic'
  /** All possible ways. */
  options?: RecoveryStrategy[]
  /** Attempts of the step that failed. */
  attempts?: number
  /** When pawl recovers the session automatically, in milliseconds since 1970; absent if a person must recover it. */
  nextAttemptAt?: number
  /** What the run had done. */
  progress?: ErrorProgress
  /** After `budget_exhausted`: limits that would allow the next model call. */
  raise?: BudgetRaise[]
}

/** A call that may have happened, with the data that `verify` needs to check again. */
export interface UnknownCall {
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The attempt whose outcome is unknown. */
  attempt: number
  /** The arguments; absent: too large to keep. */
  input?: Json
  /** How the worker resolved the call when the model requested it. */
  resolution: Resolution
  /** How many milliseconds the body may still run after its workflow was lost, because no process saw it end. */
  aliveForMs?: number
}

/** A pause of a session. */
export interface Pause {
  /** When it was paused, in milliseconds since 1970. */
  at: number
  /** Who paused it. */
  by?: string
  /** Why. */
  reason?: string
  /** `budget_assumed`: pawl paused it because a cost that it had to assume leaves too little of a budget. */
  code?: 'budget_assumed'
  /**
   * The limits with which it could continue. `raise` also ends the pause; unpausing the session without raising a limit would pause it
   * again.
   */
  raise?: BudgetRaise[]
}

/** What the newest model call used. */
export interface LastCall {
  /** `seq` of its `model_completed`. */
  seq: number
  /** The model that answered. */
  model: string
  /** Tokens of the request and the answer. */
  tokens: number
  /** Digest of the prompt that was rendered for it. */
  promptDigest?: string
}

/** The data of the newest checkpoint that the next one needs. */
export interface CheckpointState {
  /** The checkpoint's number. */
  version: number
  /** The last event before it. */
  seq: number
  /** When it was made, in milliseconds since 1970. */
  at: number
  /** The session's turns at that point. */
  turns: number
}

/** A checkpoint that was requested while a turn was open. It is made when the turn has closed. */
export interface CheckpointDue {
  /** Why, in the order of the requests. */
  reasons: string[]
  /** Who requested one last. */
  by?: string
}

export interface SessionState {
  /** Version of the encoding. */
  v: 1
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The first execution of the chain that wrote the newest events. */
  epoch: string
  /** Whom the session is for. */
  context: Json
  /** Labels by which lists of sessions can be filtered. */
  tags: string[]
  /** The session's status. */
  status: SessionStatus
  /** `seq` of the last event folded. */
  seq: number
  /** When it was created, in milliseconds since 1970. */
  createdAt: number
  /** When its last event happened, in milliseconds since 1970. */
  updatedAt: number
  /** Number of the newest run. */
  run: number
  /** The run in progress, or the one that failed. */
  current: RunState | null
  /** Why the session is in `error`. */
  error: SessionError | null
  /** Automatic recoveries; absent if there were none since a run completed or a person intervened. */
  recovered?: AutomaticRecoveries
  /**
   * Digest of the unexpected failure with which the last run or its last step ended; absent once the model has answered or a person has
   * intervened.
   */
  unexpected?: string
  /** Set while the session is paused; it takes no step until it is unpaused. */
  paused?: Pause
  /** Received messages that no turn has accepted yet, in order. */
  inbox: QueuedMessage[]
  /** Bytes of JSON of the entries in `inbox`, which are limited. */
  inboxBytes: number
  /** Messages that are delivered later, the earliest first; absent: none. */
  scheduled?: ScheduledEntry[]
  /** Short hashes of the newest 2,000 message ids accepted, for deduplication. */
  accepted: string[]
  /** The newest 100 completed effects, by short hash of their idempotency key. A worker finds older ones when it resolves a call. */
  keys: Record<string, string>
  /** Rules of the session that approve calls in a person's place; absent: none. */
  rules?: SessionRule[]
  /** Calls whose outcome is unknown, by call id. */
  unknown: Record<string, UnknownCall>
  /** Turns so far. */
  turns: number
  /** Tokens used by the session. */
  usage: Usage
  /** What it has spent, including failed attempts, tools and hooks; absent: nothing. A fork begins with what was spent up to its point. */
  spend?: Spend
  /** The session's limits that were raised; absent: none. */
  raised?: Budget
  /** The limits for which a warning has been recorded. */
  warned?: Partial<Record<BudgetUnit, number>>
  /** The newest answer, and the tokens of its request and of the answer, from which the next request is measured. */
  lastCall?: LastCall
  /** Id of the transcript's last message. */
  lastMessageId?: string
  /** The newest checkpoint. */
  checkpoint?: CheckpointState
  /** The checkpoint to make at the end of the open turn; absent if none was requested within it. */
  checkpointDue?: CheckpointDue
  /** The session's plan; absent: it never had one. */
  plan?: PlanState
  /** The session's memory; absent: nothing was ever written to it. */
  memory?: MemoryState
  /** The turn after which a run ended, or failed, before its hooks could run; absent: none are due. */
  hooksDue?: { run: number; turn: number }
  /** The agent as declared by the worker that made the newest model call; absent before the first one. */
  facts?: AgentFacts
  /** The session that called this one's agent, and what became of its question; absent: this is not a child. */
  caller?: CallerState
  /** What each of the newest 100 children had spent when it last reported, by its id; absent: the session has called no agent. */
  children?: Record<string, { tokens: number; usd: number }>
  /** Calls of agents that work in the background, by the sessions that answer; absent: none. */
  background?: Record<string, BackgroundCall>
  /** What children may still spend that have not reported yet, by their ids: it is reserved. Absent: nothing. */
  granted?: Record<string, Budget>
  /** Events before this point can no longer be read; absent if none are missing. */
  origin?: Watermark
  /** The session that it was forked from, and the last event that comes from it. */
  forkedFrom?: { sessionId: string; seq: number }
  /** The session whose id is part of session-wide idempotency keys; absent: this session. */
  keysOf?: string
}
