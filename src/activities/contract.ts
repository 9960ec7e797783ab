// What the workflow and its activities say to one another. Types only: the workflow bundle takes nothing else from here.
import type { AssistantBlock, StopReason, Usage } from '../session/content.ts'
import type { FailedAttempt, Resolution, ResultContent, RunLimits, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { SessionState } from '../session/state.ts'

/** What earlier activities of the same call have used up. */
export interface Prior {
  /** Attempts made: the next one's number is one more. */
  attempts: number
  /** Attempts that threw: they count against the retry budget. */
  failures: number
  /** Attempts that died with their worker. */
  deaths: number
}

export interface CallModelInput {
  agent: string
  epoch: string
  watermark: Watermark
  run: number
  turn: number
  /** When the run started: its deadline counts from there. */
  startedAt: number
  prior?: Prior
  /** Wait (by Temporal's retries, which leave no history) until somebody serves the agent. */
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
    }
  /** The run cannot go on. */
  | { kind: 'failed'; code: string; reason: string }
  /** The attempt failed (it is in `failed`); the next one is due in so many milliseconds. */
  | { kind: 'again'; afterMs: number }
  | { kind: 'not_served' }
  /** Neither the log nor the workflow itself has the events of this watermark. */
  | { kind: 'stale_watermark' }
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
  context: Json
  metadata: JsonObject
  tags: string[]
}

export interface ExecuteToolInput extends ToolCallInput {
  /** Execute nothing: only wait (by Temporal's retries, which leave no history) until somebody knows the tool. */
  untilServed?: true
  /** What is to be seen in the store while the call runs, if it takes long. */
  epoch: string
  watermark: Watermark
  prior?: Prior
}

/** What `execute` or `verify` gave, ready to be recorded. */
export interface RecordedResult {
  value?: Json
  content?: ResultContent
  effectId?: string
}

export type ExecuteToolResult = { attempt: number; failed?: FailedAttempt[] } & (
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

/** What is known of an attempt that did not report back: heartbeat details, and the details of `WorkerDied`. */
export interface AttemptReport {
  attempt: number
  /** Whether the body may have been entered. */
  begun: boolean
  /** Failed attempts of this activity so far. */
  failed: FailedAttempt[]
  worker: string
}

/** Details of the failure `WorkerDied`. */
export interface DeathReport extends AttemptReport {
  /** `neighbour`: the process was killed because of another call that it held. */
  cause: 'crash' | 'stuck_loop' | 'overdue' | 'neighbour'
}

export interface FlushInput {
  epoch: string
  watermark: Watermark
}

export interface FlushResult {
  seq: number
}

export type LoadSessionResult = { found: false } | { found: true; state: SessionState; digest: string }

/** The activities by name. */
export interface PawlActivities {
  callModel(input: CallModelInput): Promise<CallModelResult>
  executeTool(input: ExecuteToolInput): Promise<ExecuteToolResult>
  verifyTool(input: VerifyToolInput): Promise<VerifyToolResult>
  flush(input: FlushInput): Promise<FlushResult>
  loadSession(): Promise<LoadSessionResult>
}
