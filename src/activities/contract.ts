// What the workflow and its activities say to one another. Types only: the workflow bundle takes nothing else from here.
import type { AssistantBlock, StopReason, Usage } from '../session/content.ts'
import type {
  BlobRef,
  CheckpointPolicy,
  EffectReport,
  FailedAttempt,
  Resolution,
  ResultContent,
  RunLimits,
  Target,
  Watermark,
} from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { ForkStart } from '../session/protocol.ts'
import type { CallState, SessionState } from '../session/state.ts'

/** What earlier activities of the same call have used up. */
export interface Prior {
  /** Attempts made: the next one's number is one more. */
  attempts: number
  /** Attempts that threw: they count against the retry budget. */
  failures: number
  /** Attempts that died with their worker. */
  deaths: number
}

/** Which events an activity may read: of which chain, up to where, and what lies before the first one that can be read. */
export interface EventsInput {
  epoch: string
  watermark: Watermark
  origin?: Watermark
}

export interface CallModelInput extends EventsInput {
  agent: string
  run: number
  turn: number
  /** For how many milliseconds the run had been going on when this was scheduled: its deadline bounds the call. */
  runMs: number
  prior?: Prior
  /** Wait (by Temporal's retries, which leave no history) until somebody serves the agent, and the store has what is needed of it. */
  untilServed?: true
}

export type CallModelResult = { failed?: FailedAttempt[] } & (
  | {
      kind: 'completed'
      attempt: number
      content: AssistantBlock[]
      stopReason: StopReason
      usage: Usage
      model: string
      calls: Resolution[]
      limits: RunLimits
      checkpoint?: CheckpointPolicy
      /** Of the message that opened the run, where the session's state lacks it: it is in the events, which the workflow does not carry. */
      metadata?: JsonObject
    }
  /** The run cannot go on. */
  | { kind: 'failed'; code: string; reason: string }
  /** The attempt failed (it is in `failed`); the next one is due in so many milliseconds. */
  | { kind: 'again'; afterMs: number }
  | { kind: 'not_served' }
  /** Neither the log nor the workflow itself has the events of this watermark. */
  | { kind: 'stale_watermark' }
  /** Values that the transcript needs lie in the side store, which cannot be reached. */
  | { kind: 'archive_unavailable'; reason: string }
  | { kind: 'interrupted' }
)

/** Of what a tool call is made, wherever it runs. */
export interface ToolCallInput {
  agent: string
  run: number
  turn: number
  /** The raw arguments. */
  input: Json
  resolution: Pick<Resolution, 'index' | 'tool' | 'effect' | 'schemaDigest' | 'key'>
  /** The session whose name is in keys that count for a whole session, where it is another. */
  keysOf?: string
  context: Json
  metadata: JsonObject
  tags: string[]
}

export interface ExecuteToolInput extends ToolCallInput, EventsInput {
  /** The execution that asks. After a reset the server repeats what an execution before it has asked for: nobody waits for that. */
  executionId: string
  /** Execute nothing: only wait (by Temporal's retries, which leave no history) until somebody knows the tool. */
  untilServed?: true
  prior?: Prior
  /** The last that an earlier attempt said of how far it was. */
  progress?: Json
}

/** What `execute` or `verify` gave, ready to be recorded. */
export interface RecordedResult {
  value?: Json
  content?: ResultContent
  /** In place of value and content, which lie in the side store as the JSON text of `{ value, content }`. */
  blob?: BlobRef
  effectId?: string
}

export type ExecuteToolResult = { attempt: number; failed?: FailedAttempt[]; progress?: Json; milestones?: string[] } & (
  | ({ kind: 'completed'; startedAt: number; worker: string } & RecordedResult)
  /** It did not happen, or its effect allows to say that it failed. */
  | { kind: 'failed'; code: string; message: string }
  /** The attempt failed (it is in `failed`) and the effect allows another one, due in so many milliseconds. */
  | { kind: 'again'; afterMs: number }
  /** An `external` body was entered and threw: nobody knows. */
  | { kind: 'unknown'; message: string }
  /** The body was not entered: another build must run it. `resolution`: how this build would. */
  | { kind: 'not_begun'; resolution?: Resolution }
  | { kind: 'interrupted'; begun: boolean }
)

export interface VerifyToolInput extends ToolCallInput {
  /** The attempt in question. */
  attempt: number
}

export type VerifyToolResult =
  | ({ kind: 'happened' } & RecordedResult)
  | { kind: 'not_happened' }
  | { kind: 'cannot_tell'; message: string }
  | { kind: 'not_begun' }

export type FlushInput = EventsInput

export interface FlushResult {
  /** How far the session is stored. */
  seq: number
  /** The events of this watermark cannot be had: ask with a newer one. */
  stale?: true
}

/** How something is loaded that a session cannot open without. */
export interface Loading {
  /** What the workflow knows that it waits for: as long as it is that, Temporal retries, which leaves no history. Else the activity soon says it. */
  waitsFor?: NotYet['notYet']['code']
  /** A person has decided to go without the events of executions that cannot be read. */
  abandoned?: true
}

/** It cannot be had now, and why. */
export interface NotYet {
  notYet: {
    code: 'archive_unavailable' | 'execution_unreadable' | 'session_not_loaded'
    reason: string
  }
}

export interface LoadSessionInput extends Loading {
  /** The execution that was reset: what it has made and not stored is stored first. */
  after?: string
}

/** What a session resumes from whose workflow had closed. */
export type LoadSessionResult =
  | { found: false }
  /** `state`: within its bounds, see `snapshotOf`. */
  | { found: true; lost?: undefined; state: SessionState; digest: string }
  /** It is known, but neither a checkpoint nor its events can be read: it begins afresh, and numbers go on. */
  | {
      found: true
      lost: true
      /** Its content was erased: whom it is for says whoever begins it anew. */
      erased?: true
      agent: string
      context: Json
      tags: string[]
      run: number
      checkpoint: number
      seq: number
      digest: string
    }

/** Which calls of a turn are loaded. */
export interface LoadCallsInput extends Loading {
  /** Of the `model_completed` that asked for them. */
  answerSeq: number
  /** The event after which they are to be as they were then. */
  upTo: Watermark
  /** The first one, by its place in the turn. */
  from: number
}

/** The calls from the first one on, as many as one result can hold. `gone`: the events are not in the store any longer. */
export type LoadCallsResult = { gone?: undefined; calls: CallState[]; more: boolean } | { gone: true }

export interface LoadForkInput extends Loading {
  /** The new session's chain. */
  epoch: string
  fork: ForkStart
}

export type LoadForkResult = { kind: 'loaded'; state: SessionState; digest: string } | { kind: 'refused'; code: string; reason: string }

export interface FindPlaceInput extends EventsInput {
  target?: Target
  /** Also in a past that was left behind. */
  archived?: true
}

/** Where a target is, and which effects above it would stay. */
export type FindPlaceResult =
  | { kind: 'found'; seq: number; digest: string; lastMessageId?: string; effects: EffectReport[]; more: number }
  | { kind: 'refused'; code: string; reason: string }
  | { kind: 'stale_watermark' }

/** A call with other arguments than the model's. */
export interface ResolveToolInput extends EventsInput {
  agent: string
  run: number
  turn: number
  index: number
  tool: string
  input: Json
  context: Json
  metadata: JsonObject
  tags: string[]
}

export type ResolveToolResult = { kind: 'resolved'; resolution: Resolution } | { kind: 'not_served' } | { kind: 'stale_watermark' }

export interface CheckAnswerInput extends ToolCallInput {
  result: Json
}

export type CheckAnswerResult = ({ kind: 'fits' } & RecordedResult) | { kind: 'does_not_fit'; message: string } | { kind: 'not_served' }

/** The activities by name. */
export interface PawlActivities {
  callModel(input: CallModelInput): Promise<CallModelResult>
  executeTool(input: ExecuteToolInput): Promise<ExecuteToolResult>
  verifyTool(input: VerifyToolInput): Promise<VerifyToolResult>
  flush(input: FlushInput): Promise<FlushResult>
  loadSession(input: LoadSessionInput): Promise<(LoadSessionResult & { executionId: string }) | NotYet>
  loadCalls(input: LoadCallsInput): Promise<LoadCallsResult | NotYet>
  loadFork(input: LoadForkInput): Promise<LoadForkResult | NotYet>
  findPlace(input: FindPlaceInput): Promise<FindPlaceResult>
  resolveTool(input: ResolveToolInput): Promise<ResolveToolResult>
  checkAnswer(input: CheckAnswerInput): Promise<CheckAnswerResult>
}
