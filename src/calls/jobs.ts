// The types of jobs that an orchestrator dispatches and an executor answers.
import type { CallModelResult, PawlActivities } from './activities.ts'
import type { AttemptReport, AttemptSoFar, RidingEffect } from '../session/attempts.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { FailedAttempt } from '../session/call-facts.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { AdmissionRequest, LimitedEntry } from '../session/call-limits.ts'
import type { Json } from '../session/json.ts'
import type { ShareAnswer, ShareRequest } from './reads.ts'
import type { Reservation } from '../session/spending/reservation.ts'

/** The activities that run user code. */
export const JOB_KINDS = ['callModel', 'compact', 'executeTool', 'verifyTool', 'resolveTool', 'checkAnswer', 'endHooks'] as const
export type JobKind = (typeof JOB_KINDS)[number]

/** The input of each kind of job. */
export type JobInput<K extends JobKind> = Parameters<PawlActivities[K]>[0]

/** The result of each kind of job. */
export type JobResult<K extends JobKind> = Awaited<ReturnType<PawlActivities[K]>>

/** What a job works on. A tool call and its verification have the same subject. */
export type JobSubject =
  | { of: 'model' | 'compaction' | 'hooks'; run: number; turn: number }
  | { of: 'tool' | 'resolution' | 'answer'; callId: string; tool: string }

/** Names the subject for people: `model:<run>:<turn>`, or a tool's call id. */
export function nameOfSubject(subject: JobSubject): string {
  if ('turn' in subject) return `${subject.of}:${subject.run}:${subject.turn}`
  return subject.of === 'tool' ? subject.callId : `${subject.of}:${subject.callId}`
}

/** All data needed for an attempt's heartbeats and answer. With it, another orchestrator can take over. */
export interface Ticket {
  taskToken: Uint8Array
  sessionId: string
  /** The execution that waits for the result. */
  workflowId: string
  executionId: string
  activityId: string
  subject: JobSubject
  /** Whether the body must never be entered twice. If so, it is entered only after the server has confirmed the attempt. */
  once?: true
  heartbeatTimeoutMs: number
  report: AttemptReport
}

/** A model's checked answer; `hooks`: the hooks that ran before its request; `activeTools`: the tools that it could call, if not all. */
export type ModelAnswer = Pick<
  CallModelResult & { kind: 'completed' },
  'content' | 'blob' | 'stopReason' | 'usage' | 'model' | 'provider' | 'price' | 'spent' | 'promptDigest' | 'hooks' | 'replaced'
> & { activeTools?: string[] }

export interface JobOrder<K extends JobKind = JobKind> {
  kind: K
  input: JobInput<K>
  attempt: AttemptSoFar
  ticket: Ticket
  /** For a model call: the complete answer that an executor received before it died or lost the job. Only its calls are left to resolve. */
  answer?: ModelAnswer
}

/** What is sent with a job besides its order. */
export interface SentAlong {
  along?: EventsAlong
  /** Tools during which executors have recently died. Their calls do not run as part of a model call. */
  heldBack?: readonly string[]
}

/** Events sent along with a job to save it a request. */
export interface EventsAlong {
  from: Watermark
  entries: LogEntry[]
}

/** How a job ended. */
export type JobOutcome =
  | { kind: 'answered'; result: unknown }
  /** Temporal must schedule the activity again; `failed` is an attempt to be recorded first. */
  | { kind: 'again'; type: string; message: string; afterMs: number; failed?: FailedAttempt }
  | { kind: 'threw'; type: string; message: string; stack?: string }

/** A finished request to a model. */
export interface TimedRequest {
  model: string
  provider?: string
  ms: number
  /** Milliseconds until the first piece of a streamed answer. */
  firstMs?: number
  /** The code or class of the error, if the request failed. */
  error?: string
}

/** A job's connection to its orchestrator. */
export interface JobLink {
  /** Aborts when the attempt must stop, or when it is no longer the current one. */
  readonly signal: AbortSignal
  /** Makes the server record durably that the body is about to be entered. @throws AttemptLost: the body must not be entered. */
  begin(): Promise<void>
  /**
   * The same for a call that runs as part of this model call: the server records the answer that requests it, too.
   * @throws AttemptLost, PawlError `heartbeat_failed`; `not_alone` if something has reached the session since it asked the model.
   */
  ride(call: RidingEffect): Promise<void>
  /** Whether the limits of the call's tool admit it: 0 if they do, else the number of milliseconds after which to ask again. */
  admit(request: Omit<AdmissionRequest, 'sessionId'>): Promise<number>
  /** Reports that an admitted entry of a body has ended. If the orchestrator dies, the next one learns of it. */
  leaveLimits(entry: Omit<LimitedEntry, 'sessionId'>): void
  /** Reports that the body is entered: its timeout starts. */
  entered(timeoutMs: number): void
  /** Makes the server durably record the reservation of a model call, and waits until it has. @throws AttemptLost. */
  reserve(reservation: Reservation): Promise<void>
  /** The same without waiting for the server: the cost of the call is known if this executor dies, but not if its orchestrator dies, too. */
  noteReservation(reservation: Reservation): void
  /** Whether the budgets that the session shares can pay for a model call. */
  takeShare(request: ShareRequest): Promise<ShareAnswer>
  /** What that call has cost. */
  settleShare(token: string, usd: number): void
  /** Reports how many tokens of the answer have arrived so far: the cost of the call if this executor dies. */
  reportTokens(tokensSoFar: number): void
  /** Reports that a model is about to be asked: an attempt that waits for a worker that serves it has found one, and counts if it is lost. */
  asking(): void
  /** Reports how long a request to a model took, for metrics only. */
  asked(request: TimedRequest): void
  /** Sends watchers a piece of a model call's answer. */
  delta(piece: ModelDelta): void
  /** Hands over the model's complete answer: if this executor dies, the next one need not request it again. */
  answered(answer: ModelAnswer): void
  /** Reports progress: shown in `tool_calls`, and passed to the next attempt if this one dies. */
  progress(value: Json): void
  /** Whether the server still considers this attempt current. */
  stillMine(): Promise<boolean>
}
