// Inputs and results of activities. Types only: the workflow bundle must not include any other code from here.
import type { TraceRoot } from '../session/agents/agent-call-facts.ts'
import type { AttemptTally, Fallback } from '../session/attempts.ts'
import type { OccurrenceStart } from '../session/protocol/occurrence.ts'
import type { BudgetRaise, Cost, SharedWarning } from '../session/spending/spend.ts'
import type { AssistantBlock, StopReason, Usage } from '../session/content.ts'
import type { CustomEvent } from '../session/hooks/custom-events.ts'
import type { AgentFacts } from '../session/agent-facts.ts'
import type { BlobRef, FailedAttempt, Resolution, ResultContent } from '../session/call-facts.ts'
import type { RefusedContent, Target, Unreplayable, Watermark } from '../session/events.ts'
import type { HookOutcome } from '../session/hooks/hooks.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { PlaceToGoBackTo } from '../session/recovery/going-back.ts'
import type { PlanAndMemory } from '../session/recovery/kept.ts'
import type { CallQuestion, UserReplies } from '../session/question-facts.ts'
import type { ModelPrice } from '../session/spending/model-price.ts'
import type { AnsweredRequest, AskSignal, ForkStart, ReportSignal, SessionStart } from '../session/protocol/protocol.ts'
import type { SpendNote } from '../session/spending/spend-notes.ts'
import type { CallState, SessionState } from '../session/state.ts'

/** The events that an activity may read: their chain, the last event, and the point before the first readable one. */
export interface EventsInput {
  epoch: string
  watermark: Watermark
  origin?: Watermark
  /** The session began without consulting the store, which has not yet confirmed that the session is new. */
  isNew?: true
}

/** The input of a step that calls a model. */
export interface AskModelInput extends EventsInput {
  agent: string
  run: number
  /** The run's stretch (see `RunState`), from 2: executors derive span ids from it. Absent for the first. */
  stretch?: number
  /** The run's trace, if it is not its own. */
  trace?: TraceRoot
  turn: number
  /** The run's age in milliseconds when the activity was scheduled: the run's deadline bounds the call. */
  runMs: number
  /** The session's age in milliseconds at that time. */
  sessionMs: number
  /** Milliseconds left at that time until the deadline of the run's message. */
  leftMs?: number
  prior?: AttemptTally
  /** Digest of what the session knows of the agent. */
  known?: string
  /** Wait (by Temporal's retries, which leave no history) until a worker serves the agent and the store has the required data. */
  untilServed?: true
  /** With `untilServed`: the known cause of the wait. A different cause that a worker finds is reported. Absent from earlier builds. */
  waitsFor?: WaitCause
}

/** Why no model is asked now: each of these ends without a person. */
export type WaitCause = 'agent_not_served' | 'archive_unavailable' | 'budget_exhausted'

export interface CallModelInput extends AskModelInput {
  /** The workflow accepts the results of reads together with the answer that requests them. Absent from builds that do not accept them. */
  rides?: true
  /** The same for a call with an effect, whose outcome may then also be that its attempt was lost (`RidingEffect`). */
  ridesEffects?: true
}

/** A call that ran as part of the model call that requested it. */
export interface Ride {
  /** The call's position in the answer. */
  index: number
  /** Its duration in milliseconds. */
  ms: number
  result: ExecuteToolResult
}

export interface TooLarge {
  /** Its tokens, measured or estimated. */
  tokens: number
  /** Its size in bytes; `besides` of them are not part of messages. */
  bytes: number
  besides: number
  /** Size of the model's context window in tokens. */
  window: number
  /** The provider refused the request. */
  forced?: true
}

export interface CompactInput extends AskModelInput {
  tooLarge: TooLarge
}

/** What a step that asks a model reports besides its outcome. */
export interface StepReport {
  failed?: FailedAttempt[]
  /** Facts about this worker's build of the agent, unless the session already knows them. */
  facts?: AgentFacts
  /** Budgets that the session shares with others, and that are nearly spent. */
  warnings?: SharedWarning[]
  /** Under a budget: the cost of a call that was stopped, or the assumed cost of one whose provider did not report its usage. */
  spent?: Cost
}

export type CallModelResult = StepReport & {
  /** The hooks that ran before the request. */
  hooks?: HookOutcome[]
  /** The store has confirmed that the session is new. */
  isConfirmed?: true
} & (
    | {
        kind: 'completed'
        attempt: number
        content: AssistantBlock[]
        /** As in `model_completed`. */
        blob?: BlobRef
        stopReason: StopReason
        usage: Usage
        model: string
        provider?: string
        /** The price that the Model states. */
        price?: ModelPrice
        calls: Resolution[]
        /** The calls that ran as part of this one. Every other call is an activity of its own. */
        rides?: Ride[]
        /** Digest of the prompt that was rendered for the call; absent from workers of earlier builds. */
        promptDigest?: string
        /** Content that was left out because the provider refuses it, and the provider's reason. */
        replaced?: { content: RefusedContent[]; reason: string }
        /** Hooks of the answer: those of its calls, or those of the run's end. */
        hooksOfAnswer?: HookOutcome[]
        /** The metadata of the message that opened the run, if the session's state lacks it. The workflow does not carry the events. */
        metadata?: JsonObject
        /** What the model is told if the agent has an `output` and this final answer does not provide it. */
        outputProblem?: string
      }
    /** A hook ends the run. */
    | { kind: 'stopped'; hook: string; reason: string }
    /** The conversation must be compacted first. The model was not asked, or its provider has refused the request. */
    | ({ kind: 'compact' } & TooLarge)
    | NoAnswer
  )

/** Why a step that asks a model has no answer. */
export type NoAnswer =
  /**
   * The run cannot continue. `transient`: a retryable failure has used up its retries. `assumed`: with the assumed costs, too little of the
   * budget is left. `unexpected`: the digest of the failure, if the error did not say whether another attempt may help. `raise`: limits
   * that would allow the call.
   */
  | { kind: 'failed'; code: string; reason: string; transient?: true; assumed?: true; unexpected?: string; raise?: BudgetRaise[] }
  /** The attempt failed (it is in `failed`); the next one is due in `afterMs`, or at once if it uses another model. */
  | { kind: 'again'; afterMs: number; fallback?: Fallback }
  /**
   * The model was not called, because its provider accepts no calls of the account now. This does not count as an attempt. The call asks
   * again in `afterMs`, and its slot comes in `slotMs` (absent from workers of earlier builds, as is `account`).
   */
  | { kind: 'gated'; afterMs: number; account?: string; slotMs?: number }
  /** A budget that the session shares with others is exhausted: the model was not called. */
  | { kind: 'budget_exhausted'; reason: string }
  | { kind: 'not_served' }
  /** The session is not new: the store has another past for its id. The model's answer is dropped. */
  | { kind: 'foreign_past' }
  /** Neither the event log nor the workflow has the events of this watermark. */
  | { kind: 'stale_watermark' }
  /** The side store cannot be reached: the transcript needs values that it has, or a shared budget stops calls that it does not know of. */
  | { kind: 'archive_unavailable'; reason: string }
  | { kind: 'interrupted' }

/** The result of one piece of a compaction. */
export type CompactResult = StepReport &
  (
    | {
        kind: 'compacted'
        attempt: number
        upToSeq: number
        summary: string
        messages: number
        resultBytes?: number
        model?: string
        provider?: string
        usage?: Usage
        price?: ModelPrice
        /** Another piece follows. */
        more?: true
      }
    | NoAnswer
  )

export interface ToolCallInput {
  agent: string
  run: number
  /** The run that first accepted the message that opened this run. */
  intent: number
  /** As in `AskModelInput`. */
  stretch?: number
  trace?: TraceRoot
  turn: number
  /** The raw arguments. */
  input: Json
  resolution: Pick<Resolution, 'index' | 'tool' | 'effect' | 'schemaDigest' | 'key' | 'generation'>
  /** The session whose id the session-wide keys contain, if it is a different one. */
  keysOf?: string
  context: Json
  metadata: JsonObject
  tags: string[]
}

export interface ExecuteToolInput extends ToolCallInput, EventsInput {
  /**
   * The execution that scheduled the activity. After a reset, the server repeats activities of the reset execution, and nothing uses their
   * results.
   */
  executionId: string
  /** Execute nothing: only wait (by Temporal's retries, which leave no history) until a worker has the tool. */
  untilServed?: true
  /** The same, but only until the tool's limits admit the call. */
  untilAdmitted?: true
  prior?: AttemptTally
  /** The last progress that an earlier attempt reported. */
  progress?: Json
  /** The user's replies to what earlier attempts have asked. */
  replies?: UserReplies
}

/** The result of `execute` or `verify`, ready to be recorded. */
export interface RecordedResult {
  value?: Json
  content?: ResultContent
  /** Replaces value and content; the side store has them as the JSON text of `{ value, content }`. */
  blob?: BlobRef
  effectId?: string
}

export type ExecuteToolResult = {
  attempt: number
  failed?: FailedAttempt[]
  progress?: Json
  milestones?: string[]
  emitted?: CustomEvent[]
  spent?: SpendNote[]
} & (
  | ({ kind: 'completed'; startedAt: number; worker: string } & RecordedResult)
  /** The effect did not happen, or may be reported as failed. */
  | { kind: 'failed'; code: string; message: string }
  /** The attempt failed (it is in `failed`) and the effect allows another one, due in `afterMs`. */
  | { kind: 'again'; afterMs: number }
  /** An `external` body was entered and threw: its outcome is unknown. */
  | { kind: 'unknown'; message: string }
  /** The body was not entered: another build must run it. `resolution`: this build's resolution of the call. */
  | { kind: 'not_begun'; resolution?: Resolution }
  /** The body was not entered: a limit of the tool makes the call wait. */
  | { kind: 'limited'; reason: string }
  | { kind: 'interrupted'; begun: boolean }
  /** The body needs answers of the user before it can continue; it has done nothing yet. */
  | { kind: 'asks'; questions: CallQuestion[]; state?: string }
)

export interface VerifyToolInput extends ToolCallInput, EventsInput {
  /** The attempt being verified. */
  attempt: number
}

export type VerifyToolResult =
  | ({ kind: 'happened' } & RecordedResult)
  | { kind: 'not_happened' }
  | { kind: 'cannot_tell'; message: string }
  | { kind: 'not_begun' }

export type FlushInput = EventsInput

export interface FlushResult {
  /** The `seq` up to which the session is stored. */
  seq: number
  /** The events of this watermark cannot be read: retry with a newer one. */
  stale?: true
  /** The store has another past for the session's id: these events were set aside. */
  foreign?: true
}

/** Input of the activities that load what a session needs to open. */
export interface LoadInput {
  /**
   * The known cause of the wait. While it stays the same, Temporal retries, which adds nothing to history. A different cause is soon
   * reported.
   */
  waitsFor?: NotYet['notYet']['code']
  /** A person decided to continue without the events of unreadable executions. */
  abandoned?: true
}

/** The reason that the data cannot be loaded now. */
export interface NotYet {
  notYet: {
    code: 'archive_unavailable' | 'execution_unreadable' | 'session_not_loaded'
    reason: string
  }
}

/** The result of an activity whose execution no worker can replay. Without a `result`, a tool's body may have been entered. */
export type PriorAnswer =
  | { of: 'model'; run: number; turn: number; result: CallModelResult }
  | { of: 'call'; run: number; turn: number; callId: string; result?: ExecuteToolResult }

/** What a session inherits from an execution that no worker could replay. */
export interface Succession {
  unreplayable?: Unreplayable
  /** What its activities did after the last stored event, in order. */
  answers?: PriorAnswer[]
  /** The requests that it received, in order, and that were not carried out according to the stored events. */
  requests?: PriorRequest[]
  /** The requests with ids of their senders that it carried out. */
  answered?: AnsweredRequest[]
}

/**
 * A request that an earlier execution received: a signal, an operator's cancellation, or an update with its id; or a scheduled message that it
 * delivered (`due`). `receivedAt`: the newest event when an update was received, if the session has all events of that execution.
 */
export type PriorRequest =
  | { kind: 'signal' | 'cancellation' | 'due'; name: string; details: unknown }
  | { kind: 'update'; name: string; details: unknown; id: string; receivedAt?: number }

export interface LoadSessionInput extends LoadInput {
  /** The execution that was reset. Its unstored events are stored first. */
  after?: string
  /** The execution that took the session for a new one. What it received is passed on. */
  mistaken?: string
  /** The execution that this one replaces, because no worker could replay it. */
  unreplayable?: Unreplayable
}

/**
 * Requests that the server sent to the new execution again after a reset, although the reset execution had carried them out according to
 * the stored events.
 */
export interface RepeatedRequests {
  /** The indexes of the signals among all signals that the execution has received, from 0. */
  signals: number[]
  /** The ids of the updates. */
  updates: string[]
}

/** What a session resumes from after its workflow has closed. `repeated`: after a reset. */
export type LoadSessionResult = Succession & PastInStore & { repeated?: RepeatedRequests }

/** What the store has of a session. */
export type PastInStore =
  | { found: false }
  /** `state`: bounded as described at `snapshotOf`. */
  | { found: true; lost?: undefined; state: SessionState; digest: string }
  /** The session is known, but neither a checkpoint nor its events can be read. It starts over, and its numbers continue. */
  | {
      found: true
      lost: true
      /** Its content was erased: the next message provides the agent and the context. */
      erased?: true
      agent: string
      context: Json
      tags: string[]
      run: number
      checkpoint: number
      /** The session whose id the session-wide keys contain, if this one is a fork. */
      keysOf?: string
      seq: number
      digest: string
    }

/** Which calls of a turn are loaded. */
export interface LoadCallsInput extends LoadInput {
  /** `seq` of the `model_completed` that requested them. */
  answerSeq: number
  /** The event up to which their states are folded. */
  upTo: Watermark
  /** The first call to load, by its position in the turn. */
  from: number
}

/** As many calls as one result can hold, from the first one on. `gone`: the store no longer has the events. */
export type LoadCallsResult = { gone?: undefined; calls: CallState[]; more: boolean } | { gone: true }

/** Which calls of a turn to find. Ended calls come with their arguments. */
export interface FindCallsInput extends EventsInput {
  /** `seq` of the `model_completed` that requested them. */
  answerSeq: number
  /** The first call to return, by its position in the turn. */
  from: number
}

/** The events of the watermark could not be read. `reason`: absent from older workers. */
export interface Unreadable {
  kind: 'stale_watermark'
  reason?: string
}

export type FindCallsResult = { kind: 'found'; calls: CallState[]; more: boolean } | Unreadable

export interface LoadForkInput extends LoadInput {
  /** The new session's chain. */
  epoch: string
  fork: ForkStart
}

export type LoadForkResult = { kind: 'loaded'; state: SessionState; digest: string } | { kind: 'refused'; code: string; reason: string }

export interface FindPlaceInput extends EventsInput {
  target?: Target
  /** For a rollback: messages up to this event leave the inbox. */
  upToSeq?: number
  /** The place is before the newest run's opening message. */
  newestRun?: true
  /** Also search in a past that a rollback has archived. */
  archived?: true
  /** Calls of which it matters whether they are among the effects that are not reported. */
  calls?: string[]
}

/** The position of a target, and the effects after it, which a rollback does not undo. */
export type FindPlaceResult = ({ kind: 'found' } & PlaceToGoBackTo) | { kind: 'refused'; code: string; reason: string } | Unreadable

/** The point whose plan and memory to find: before a run began, or after an event. */
export interface FindKeptInput extends EventsInput {
  beforeRun?: number
  upToSeq?: number
}

/** `kept`: absent if the events do not include that point. */
export type FindKeptResult = { kind: 'found'; kept?: PlanAndMemory } | Unreadable

/** Input for resolving a call with arguments other than the model's. */
export interface ResolveToolInput extends EventsInput {
  agent: string
  run: number
  turn: number
  index: number
  generation?: number
  tool: string
  input: Json
  /** A person provided the arguments: hooks may refuse or change them, as they may with the model's. */
  asksHooks?: true
  context: Json
  metadata: JsonObject
  tags: string[]
}

/** `hooks`: the hooks that were asked; `input`: the arguments of the resolution, if a hook has changed them. */
export type ResolveToolResult =
  | { kind: 'resolved'; resolution: Resolution; hooks?: HookOutcome[]; input?: Json }
  | { kind: 'not_served' }
  | { kind: 'stale_watermark' }

/** The hooks that are due after a run's last turn. */
export interface EndHooksInput extends EventsInput {
  agent: string
  run: number
  turn: number
}

export type EndHooksResult =
  | { kind: 'ran'; hooks: HookOutcome[] }
  | { kind: 'not_served' }
  | { kind: 'archive_unavailable' }
  | { kind: 'stale_watermark' }

export interface CheckAnswerInput extends ToolCallInput, EventsInput {
  result: Json
  /** Only checks the result, and makes no record of it. */
  shapeOnly?: true
  /** The result answers this question, not the call. It is only checked. */
  question?: CallQuestion
}

export type CheckAnswerResult = ({ kind: 'fits' } & RecordedResult) | { kind: 'does_not_fit'; message: string } | { kind: 'not_served' }

/** A question to a child session, or a stop. */
export interface ChildAsk {
  /** Its id. */
  child: string
  taskQueue: string
  /** How the session starts; absent for a stop, which does not start it. */
  start?: Pick<SessionStart, 'agent' | 'context' | 'tags' | 'settings' | 'caller' | 'mustExist'>
  ask: AskSignal
}

/** What a child session tells its caller. An answer is read from its run's events. */
export interface ReportInput extends EventsInput, Omit<ReportSignal, 'value'> {
  /** A point before the run from which its events can be read; absent: the beginning. */
  from?: Watermark
  run?: number
  caller: { sessionId: string; taskQueue: string }
}

/** A standing approval for a context, and the call that it is to approve. */
export interface UseContextRuleInput {
  rule: string
  callId: string
}

/** Whether the rule has approved the call, now or before, or why it does not. `unavailable`: the store did not answer. */
export type UseContextRuleResult = 'used' | 'revoked' | 'expired' | 'used_up' | 'unavailable'

/** A standing approval for a context that was just given, and how many calls that waited it has approved. */
export interface ReleaseWaitingInput {
  rule: string
}
export interface ReleaseWaitingResult {
  released: number
}

/** An occurrence of a schedule. `time`: ISO text; `taskQueue`: that of the session. */
export interface SendOccurrenceInput {
  start: OccurrenceStart
  time: string
  taskQueue: string
}

/** pawl's own activities. They have a separate task queue, so that user code cannot occupy all their slots. */
export type OwnActivity =
  | 'findPlace'
  | 'findCalls'
  | 'findKept'
  | 'flush'
  | 'loadSession'
  | 'loadCalls'
  | 'loadFork'
  | 'askChildren'
  | 'reportToCaller'
  | 'useContextRule'
  | 'releaseWaiting'
  | 'sendOccurrence'

/** The activities by name. */
export interface PawlActivities {
  callModel(input: CallModelInput): Promise<CallModelResult>
  compact(input: CompactInput): Promise<CompactResult>
  executeTool(input: ExecuteToolInput): Promise<ExecuteToolResult>
  verifyTool(input: VerifyToolInput): Promise<VerifyToolResult>
  flush(input: FlushInput): Promise<FlushResult>
  loadSession(input: LoadSessionInput): Promise<(LoadSessionResult & { executionId: string }) | NotYet>
  loadCalls(input: LoadCallsInput): Promise<LoadCallsResult | NotYet>
  loadFork(input: LoadForkInput): Promise<LoadForkResult | NotYet>
  findPlace(input: FindPlaceInput): Promise<FindPlaceResult>
  findCalls(input: FindCallsInput): Promise<FindCallsResult>
  findKept(input: FindKeptInput): Promise<FindKeptResult>
  resolveTool(input: ResolveToolInput): Promise<ResolveToolResult>
  checkAnswer(input: CheckAnswerInput): Promise<CheckAnswerResult>
  endHooks(input: EndHooksInput): Promise<EndHooksResult>
  /** Workers of earlier builds return nothing. */
  askChildren(input: { asks: ChildAsk[] }): Promise<{ erased: string[] } | undefined>
  reportToCaller(input: ReportInput): Promise<{ delivered: boolean }>
  useContextRule(input: UseContextRuleInput): Promise<UseContextRuleResult>
  releaseWaiting(input: ReleaseWaitingInput): Promise<ReleaseWaitingResult>
  sendOccurrence(input: SendOccurrenceInput): Promise<void>
}
