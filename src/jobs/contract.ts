// Jobs as an orchestrator orders them and an executor answers: what both sides of the boundary know of one.
import type { PawlActivities } from '../activities/contract.ts'
import type { AttemptReport } from '../session/attempts.ts'
import type { FailedAttempt, LogEntry, Watermark } from '../session/events.ts'
import type { Json } from '../session/json.ts'

/** The activities whose work is user code. */
export type JobKind = 'callModel' | 'executeTool' | 'verifyTool' | 'resolveTool' | 'checkAnswer'

/** What a kind of job is given. */
export type JobInput<K extends JobKind> = Parameters<PawlActivities[K]>[0]

/** What a kind of job answers. */
export type JobResult<K extends JobKind> = Awaited<ReturnType<PawlActivities[K]>>

/** The attempt that a job is, as far as it was counted before the job began. */
export interface AttemptSoFar {
  /** Counted from 1 over all of the call's activities. */
  number: number
  /** Failed attempts of this activity. */
  failed: FailedAttempt[]
  /** Attempts of the call that threw. */
  failures: number
  /** The last progress that an earlier attempt reported. */
  lastProgress?: Json
}

/** All that is needed to heartbeat for an attempt and to answer for it: another orchestrator can take over with this alone. */
export interface Ticket {
  taskToken: Uint8Array
  sessionId: string
  /** The execution that waits for the answer. */
  workflowId: string
  executionId: string
  activityId: string
  /** `model:<run>:<turn>`, a tool's call id, or `verify:<call id>`. */
  call: string
  tool?: string
  /** Whether the body must never be entered twice: then it is entered only once the server has confirmed the attempt. */
  once?: true
  heartbeatTimeoutMs: number
  report: AttemptReport
}

/** One order. */
export interface JobOrder<K extends JobKind = JobKind> {
  kind: K
  input: JobInput<K>
  attempt: AttemptSoFar
  ticket: Ticket
}

/** Events that come along with a job, so that it need not ask for them. */
export interface EventsAlong {
  from: Watermark
  entries: LogEntry[]
}

/** How a job ended. */
export type Outcome =
  | { kind: 'answered'; result: unknown }
  /** Temporal is to schedule the activity again; `failed` is an attempt to be recorded first. */
  | { kind: 'again'; type: string; message: string; afterMs: number; failed?: FailedAttempt }
  | { kind: 'threw'; type: string; message: string; stack?: string }

/** A job's line to its orchestrator. */
export interface JobLink {
  /** Aborts when the attempt is to stop, or is not the live one any more. */
  readonly signal: AbortSignal
  /** Has the server record, durably, that the body is about to be entered. @throws AttemptLost: then it must not be. */
  begin(): Promise<void>
  /** The body is entered: its timeout starts. */
  entered(timeoutMs: number): void
  /** Reports progress: shown in the ledger, and passed to the next attempt if this one dies. */
  progress(value: Json): void
  /** Whether the server still counts on this attempt. */
  stillMine(): Promise<boolean>
}
