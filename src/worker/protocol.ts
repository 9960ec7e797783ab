// The messages between an orchestrator and its executors over a local socket, between both and their parent, and of a preflight. Types only.
import type { CrossingError } from './errors.ts'
import type { EventsAlong, JobOrder, ModelAnswer, Outcome, TimedRequest } from '../jobs/contract.ts'
import type { ReadTarget } from '../jobs/session-views.ts'
import type { SliceSnapshot } from '../session/slices.ts'
import type { BlobRef, LogEntry, Resolution, Watermark } from '../session/events.ts'
import type { DeltaPart } from '../session/deltas.ts'
import type { Json } from '../session/json.ts'
import type { Reservation } from '../session/reservation.ts'
import type { CallState } from '../session/state.ts'
import type { SentLine } from '../log/sending-logger.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { SuperviseOptions, SupervisorEvent } from './options.ts'
import type { SpanSettings, TelemetrySettings } from './telemetry-settings.ts'
import type { PreflightWarning } from './preflight-report.ts'

// ── orchestrator ↔ executor ──

/** Messages to an executor. */
export type ToExecutor =
  | { type: 'job'; job: string; order: JobOrder; along?: EventsAlong }
  /** `moved`: another executor runs the job, and nobody waits for this one's answer. */
  | { type: 'stop'; job: string; why: 'cancelled' | 'lost' | 'moved' }
  | { type: 'answer'; request: number; value: unknown }
  | { type: 'refusal'; request: number; code: string; message: string }
  /** The rate gates that are not open: calls to these accounts ask for a place first. */
  | { type: 'gates'; keys: string[] }
  /** A checkpoint is stored: an executor that has the session in its cache folds it up to there. */
  | { type: 'checkpoint'; target: ReadTarget }

/** Messages from an executor. */
export type FromExecutor =
  /**
   * The first message on a channel. `models`: by agent, where it is fixed. `hasSlices`: whether some agent has any. `holding`: the jobs from
   * an earlier orchestrator.
   */
  | {
      type: 'hello'
      executor: number
      pid: number
      worker: string
      models: ReadonlyMap<string, string>
      hasSlices: boolean
      holding: Holding[]
    }
  /** Its event loop is not blocked. */
  | { type: 'alive' }
  | { type: 'accepted'; job: string }
  | { type: 'entered'; job: string; timeoutMs: number }
  | { type: 'progress'; job: string; value: Json }
  /** So many tokens of the model's answer have come, of a call under a budget. */
  | { type: 'streamed'; job: string; tokens: number }
  /** A request to a model has ended. */
  | { type: 'asked'; job: string; timed: TimedRequest }
  /** What models have said since their last parts. */
  | { type: 'deltas'; parts: { job: string; part: AnswerPart }[] }
  /** The model's answer is complete; its calls are being resolved. */
  | { type: 'answered'; job: string; answer: ModelAnswer }
  | { type: 'done'; job: string; outcome: Outcome }
  | { type: 'request'; request: number; ask: Ask }
  /** A provider has refused a call and wants none for so long. */
  | { type: 'refused'; key: string; forMs: number }
  /** What slices are at checkpoints. */
  | { type: 'snapshots'; sessionId: string; snapshots: SliceSnapshot[] }

/** Requests of an executor. */
export type Ask =
  /** May the body be entered? */
  | { ask: 'begin'; job: string }
  | { ask: 'still_mine'; job: string }
  /** Make durable what is set aside for a model call. */
  | { ask: 'reserve'; job: string; reservation: Reservation }
  | { ask: 'entries'; target: ReadTarget; from: Watermark }
  | { ask: 'put_value'; sessionId: string; ref: BlobRef; json: Uint8Array; waitMs?: number }
  /** May this call be made to a provider whose gate is not open? The answer is the milliseconds until it may. */
  | { ask: 'place_at_gate'; key: string; call: string }
  | { ask: 'get_values'; sessionId: string; refs: readonly BlobRef[] }

/** The answer to each request. */
export interface Answers {
  begin: true
  still_mine: boolean
  reserve: true
  entries: LogEntry[]
  put_value: boolean
  place_at_gate: number
  get_values: Map<string, string>
}

/** Pieces of a streamed answer, from a position of it. */
export type AnswerPart = Pick<DeltaPart, 'begunAt' | 'from' | 'until' | 'pieces'>

/** A job that an executor holds when it connects to a new orchestrator. */
export interface Holding {
  job: string
  order: JobOrder
  /** Whether the body may have been entered. */
  begun: boolean
  /** Milliseconds since the body was entered, and its timeout. */
  entered?: { agoMs: number; timeoutMs: number }
  progress?: Json
  /** Of a model call under a budget: what is set aside for it, and how many tokens of its answer have come. */
  reserved?: Reservation
  streamed?: number
  /** What the model has said so far, if it streams. */
  said?: AnswerPart
  /** The model's answer, if it is complete. */
  answer?: ModelAnswer
  /** Its outcome, if it has ended. */
  outcome?: Outcome
}

// ── parent ↔ orchestrator ──

/** The start options of an orchestrator, sent by IPC and never in the environment, which every child process of a tool inherits. */
export interface OrchestratorOptions extends Pick<SuperviseOptions, 'taskQueue' | 'schema' | 'migrate' | 'dataConverter' | 'interceptors'> {
  /** Absent members come from the environment. */
  temporal: TemporalAddress & { apiKey?: string }
  postgres: string
  stuckLoopMs: number
  /** The socket for executors. */
  socketPath: string
  /** Executions that an earlier orchestrator had cached, newest first. */
  cached: CachedExecution[]
  /** Pids of the parent's orchestrators that have died. */
  predecessors: number[]
  /** Executors of the parent's that have died. */
  exited: ExitedExecutor[]
  /** Executors that may hold jobs of the dead orchestrators. */
  executors: number[]
  log: LogOptions
  /** What of telemetry is on; absent: nothing. */
  telemetry?: TelemetrySettings
}

/** The log of a process. */
export interface LogOptions {
  /** Whether its lines go to the parent, which has the user's logger. */
  toParent: boolean
  /** Names that are redacted besides the usual ones. */
  redact: readonly string[]
}

/** An execution in an orchestrator's cache. */
export interface CachedExecution {
  workflowId: string
  executionId: string
}

/** An executor that has died. */
export interface ExitedExecutor {
  executor: number
  pid: number
}

/** Messages from the parent to the orchestrator. */
export type ToOrchestrator =
  | { type: 'start'; options: OrchestratorOptions }
  /** The process is dead: the parent has seen its exit. */
  | { type: 'executor_exited'; executor: number; pid: number; code: number | null; signal: string | null }
  /** Those that have died so far; some of them, perhaps, while this orchestrator started. */
  | { type: 'exited'; exited: ExitedExecutor[] }
  /** No new jobs for these executors; `drained` follows when they have none. */
  | { type: 'retire'; executors: number[] }
  | { type: 'api_key'; apiKey: string }
  | { type: 'shutdown' }

/** Messages from the orchestrator to the parent. */
export type FromOrchestrator =
  /** Temporal answers. */
  | { type: 'connected' }
  /** Executors can connect. */
  | { type: 'listening' }
  /** It polls Temporal. */
  | { type: 'serving' }
  | { type: 'failed'; error: CrossingError }
  | { type: 'alive' }
  | { type: 'executor_ready'; executor: number }
  | { type: 'kill'; executor: number; why: KillReason }
  | { type: 'drained'; executor: number }
  | { type: 'event'; event: SupervisorEvent }
  /** An execution made events up to `seq`: it is cached. */
  | { type: 'cached'; executions: (CachedExecution & { seq: number })[] }
  | ({ type: 'log' } & SentLine)

/** Why an executor is killed. `broken_line`: it sent a message that cannot be decoded, or closed the channel. */
export type KillReason = 'stuck_loop' | 'overdue' | 'broken_line'

// ── parent ↔ executor ──

/** Options of an executor's process, beside its number and its module. */
export interface ExecutorProcessOptions {
  /** Whether it reports the files that it loads. */
  reportsFiles: boolean
  log: LogOptions
  /** Absent: no spans. */
  traces?: SpanSettings | undefined
}

/** Messages from the parent to an executor. */
export type ParentToExecutor = { pawl: 'connect'; path: string } | { pawl: 'shutdown' }

/** Messages from an executor to the parent. User code can send messages, too: only these count. */
export type ExecutorToParent =
  | { pawl: 'loaded' }
  | { pawl: 'start_failed'; error: CrossingError }
  | ({ pawl: 'log' } & SentLine)
  /** It has loaded these files of the user's, or they are missing. */
  | { pawl: 'files'; files: string[] }

// ── preflight ↔ the process that loads its module ──

/** An open session, as far as its agent's code is concerned. */
export interface StandingSession {
  agent: string
  context: Json
  calls: OpenCall[]
}

/** A call that has not ended, or whose outcome is unknown. */
export interface OpenCall extends Pick<CallState, 'callId' | 'status'> {
  resolution: Pick<Resolution, 'tool' | 'effect' | 'schemaDigest' | 'client' | 'verify'>
  /** Absent: the arguments are no longer known. */
  input?: Json
}

/** Messages to the process. */
export interface ToChecker {
  pawl: 'check'
  request: number
  session: StandingSession
}

/** Messages from the process. User code can send messages, too: only these count. */
export type FromChecker =
  | Extract<ExecutorToParent, { pawl: 'loaded' | 'start_failed' }>
  | { pawl: 'checked'; request: number; warnings: PreflightWarning[] }
