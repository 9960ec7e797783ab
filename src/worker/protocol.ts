// Messages between an orchestrator and its executors over a local socket, between both and their parent, and in a preflight. Only types.
import type { AdmissionRequest, LimitedEntry } from '../session/call-limits.ts'
import type {
  ContextRule,
  ContextRules,
  ShareAnswer,
  ShareRequest,
  PrepaidShare,
  EarlierKeys,
  GateSlot,
  ReadTarget,
  ValueSource,
} from '../calls/reads.ts'
import type { SourceReport } from '../agent/tool.ts'
import type { CrossingError } from './errors.ts'
import type { JobOrder, ModelAnswer, JobOutcome, SentAlong, TimedRequest } from '../calls/jobs.ts'
import type { SliceSnapshot } from '../session/slices/slices.ts'
import type { BlobRef, Resolution } from '../session/call-facts.ts'
import type { LogEntry, Watermark } from '../session/events.ts'
import type { DeltaPart } from '../session/watching/deltas.ts'
import type { Json } from '../session/json.ts'
import type { Reservation } from '../session/spending/reservation.ts'
import type { CallState } from '../session/state.ts'
import type { AttemptReport, RidingEffect } from '../session/attempts.ts'
import type { SentLine } from '../log/sending-logger.ts'
import type { TemporalAddress } from '../connect/temporal.ts'
import type { ProcessDeath, SuperviseOptions, SupervisorEvent } from './options.ts'
import type { SpanSettings, TelemetrySettings } from './telemetry-settings.ts'
import type { PreflightWarning, UnverifiedTool } from './preflight-report.ts'

// ── orchestrator ↔ executor ──

/** Messages to an executor. */
export type ToExecutor =
  /** `share`: what was taken for its model call already. */
  | ({ type: 'job'; job: string; order: JobOrder; share?: PrepaidShare } & SentAlong)
  /** `moved`: another executor runs the job, and this one's answer is no longer needed. */
  | { type: 'stop'; job: string; why: 'cancelled' | 'lost' | 'moved' }
  | { type: 'answer'; request: number; value: unknown }
  | { type: 'refusal'; request: number; code: string; message: string }
  /** The orchestrator receives attempts from now on. If the server did not accept an answer, it asks for it again soon or never. */
  | { type: 'serving' }
  /** The rate gates that are closed: a call to one of these accounts must first ask for a slot. */
  | { type: 'gates'; keys: string[] }
  /** There are budgets that sessions with these tags, or of these agents, share. */
  | { type: 'shared_budgets'; of: { tag: string | null; agent: string | null }[] }
  /** A checkpoint is stored: an executor with the session in its cache folds it up to that point. */
  | { type: 'checkpoint'; target: ReadTarget }

/** Messages from an executor. */
export type FromExecutor =
  /**
   * The first message on a channel. `models`: the model of each agent that has a fixed one. `hasSlices`: whether any agent has slices.
   * `holding`: the jobs from an earlier orchestrator.
   */
  | {
      type: 'hello'
      executor: number
      pid: number
      worker: string
      models: ReadonlyMap<string, string>
      hasSlices: boolean
      holding: HeldJobReport[]
    }
  /** The executor's event loop is not blocked. */
  | { type: 'alive' }
  | { type: 'accepted'; job: string }
  | { type: 'entered'; job: string; timeoutMs: number }
  | { type: 'progress'; job: string; value: Json }
  /** What a model call may cost, for a budget that the session shares. */
  | { type: 'reserved'; job: string; reservation: Reservation }
  /** How many tokens of the model's answer have arrived, for a call under a budget. */
  | { type: 'tokens_so_far'; job: string; tokens: number }
  /** A request to a model has ended. */
  | { type: 'asked'; job: string; timed: TimedRequest }
  /** New output of models since the last message. */
  | { type: 'deltas'; parts: { job: string; part: AnswerPart }[] }
  /** The model's answer is complete; its calls are being resolved. */
  | { type: 'answered'; job: string; answer: ModelAnswer }
  | { type: 'done'; job: string; outcome: JobOutcome }
  | { type: 'request'; request: number; ask: Ask }
  /** A provider has refused a call and accepts none for `forMs`; `isHeader`: the provider's own header says so. */
  | { type: 'refused'; key: string; forMs: number; isHeader: boolean }
  /** What a call has cost for which the executor had taken a share of budgets. */
  | { type: 'share_settled'; token: string; usd: number }
  /** A provider has accepted a call that asked for a slot. */
  | { type: 'accepted_at_gate'; key: string }
  /** The values of slices at checkpoints. */
  | { type: 'snapshots'; sessionId: string; snapshots: SliceSnapshot[] }

/** Requests of an executor. */
export type Ask =
  /** May the executor enter the body? */
  | { ask: 'begin'; job: string }
  /** May it enter the body of a call as part of this model call? */
  | { ask: 'ride'; job: string; call: RidingEffect }
  | { ask: 'still_mine'; job: string }
  /** Make the reservation for a model call durable. */
  | { ask: 'reserve'; job: string; reservation: Reservation }
  | { ask: 'entries'; target: ReadTarget; from: Watermark }
  | ({ ask: 'put_value'; sessionId: string; ref: BlobRef; json: Uint8Array } & ValueSource)
  /** How long must this call wait for a provider whose gate is closed? The answer is in milliseconds. */
  | { ask: 'gate_slot'; key: string; call: string }
  | { ask: 'get_values'; sessionId: string; refs: readonly BlobRef[] }
  | { ask: 'get_piece'; sessionId: string; sha256: string; from: number }
  /** Do the limits of its tool admit the call? The answer is the number of milliseconds after which to ask again. */
  | ({ ask: 'admit' } & AdmissionRequest)
  /** Note that an admitted entry of a body has ended. */
  | ({ ask: 'leave_limits' } & LimitedEntry)
  /** Which call used this key in a part of the session that was pruned? */
  | { ask: 'earlier_key'; sessionId: string; key: string }
  /** Can the budgets that sessions share pay for this call? */
  | { ask: 'take_share'; job: string; of: ShareRequest }
  /** Which standing approvals for contexts may approve a call of this tool? */
  | { ask: 'context_rules'; of: Parameters<ContextRules>[0] }

/** The answer to each request. */
export interface Answers {
  begin: true
  ride: true
  still_mine: boolean
  reserve: true
  entries: LogEntry[]
  put_value: boolean
  gate_slot: GateSlot
  admit: number
  leave_limits: true
  get_values: Map<string, string>
  get_piece: string | undefined
  earlier_key: Awaited<ReturnType<EarlierKeys>>
  context_rules: ContextRule[]
  take_share: ShareAnswer
}

/** Pieces of a streamed answer, from a position in it. */
export type AnswerPart = Pick<DeltaPart, 'begunAt' | 'from' | 'until' | 'pieces'>

/** A job that an executor holds when it connects to a new orchestrator. */
export interface HeldJobReport extends Pick<AttemptReport, 'begun' | 'progress' | 'riding' | 'reserved'> {
  job: string
  order: JobOrder
  /** Milliseconds since the body was entered, and its timeout. */
  entered?: { agoMs: number; timeoutMs: number }
  /** For a model call under a budget: how many tokens of its answer have arrived. */
  tokensSoFar?: number
  /** The model's output so far, if it streams. */
  streamed?: AnswerPart
  /** The model's answer, if it is complete. */
  answer?: ModelAnswer
  /** Its outcome, if it has ended. */
  outcome?: JobOutcome
}

// ── parent ↔ orchestrator ──

/**
 * The start options of an orchestrator. They are sent over IPC, because every child process of a tool would inherit environment variables.
 */
export interface OrchestratorOptions extends Pick<SuperviseOptions, 'taskQueue' | 'schema' | 'migrate' | 'dataConverter' | 'interceptors'> {
  /** Missing members come from the environment. */
  temporal: TemporalAddress & { apiKey?: string }
  postgres: string
  stuckLoopMs: number
  /** How many executors the parent keeps running. */
  processes: number
  healAfterMs: number | false
  /** The socket for executors. */
  socketPath: string
  /** The worker's own folder, which outlives its orchestrators. */
  folder: string
  /** Executions that an earlier orchestrator had cached, newest first. */
  cached: CachedExecution[]
  /** Executions that earlier orchestrators were watching because they make no progress. */
  failing: FailingExecution[]
  /** A secret that only the processes of this worker know. */
  workerSecret: string
  /** Pids of the parent's orchestrators that have died. */
  predecessors: number[]
  /** The parent's executors that have died. */
  exited: ExitedExecutor[]
  /** Executors that may hold jobs of the dead orchestrators. */
  executors: number[]
  log: LogOptions
  /** The parts of telemetry that are on; absent: none. */
  telemetry?: TelemetrySettings
}

/** What a process needs to load in advance what an orchestrator runs. */
export type SpareOptions = Pick<OrchestratorOptions, 'dataConverter' | 'interceptors' | 'folder' | 'log'>

/** The log of a process. */
export interface LogOptions {
  /** Whether its lines go to the parent, which has the user's logger. */
  toParent: boolean
  /** Names to redact besides the usual ones. */
  redact: readonly string[]
}

/** An execution in an orchestrator's cache. */
export interface CachedExecution {
  workflowId: string
  executionId: string
}

/** An execution whose workflow task failed in an orchestrator of this worker. */
export interface FailingExecution extends CachedExecution {
  /** When an orchestrator noticed, in milliseconds since 1970. */
  since: number
  reason: string
}

/** An executor that has died. */
export interface ExitedExecutor {
  executor: number
  pid: number
  /** It died so shortly before an orchestrator, or while there was none, that no orchestrator has ended its attempts. */
  isUnseen?: true
}

/** Messages from the parent to the orchestrator. */
export type ToOrchestrator =
  /** It may be started later: it loads what it will need. */
  | { type: 'prepare'; options: SpareOptions }
  | { type: 'start'; options: OrchestratorOptions }
  /** The process is dead. The parent has seen its exit. */
  | ({ type: 'executor_exited'; executor: number } & Omit<ProcessDeath, 'at'>)
  /** The executors that have died so far. Some of them may have died while this orchestrator started. */
  | { type: 'exited'; exited: ExitedExecutor[] }
  /** These executors must not get new jobs. `drained` follows when they have none. */
  | { type: 'retire'; executors: number[] }
  | { type: 'api_key'; apiKey: string }
  | { type: 'shutdown' }

/** Messages from the orchestrator to the parent. */
export type FromOrchestrator =
  /** Temporal has answered. */
  | { type: 'connected' }
  /** Executors can connect. */
  | { type: 'listening' }
  /** The orchestrator polls Temporal. */
  | { type: 'serving' }
  | { type: 'failed'; error: CrossingError }
  /**
   * The orchestrator's event loop is not blocked. `holds`: the executors whose `external` attempts the server has all recently confirmed.
   */
  | { type: 'alive'; holds: number[] }
  | { type: 'executor_ready'; executor: number }
  | { type: 'kill'; executor: number; why: KillReason }
  | { type: 'drained'; executor: number }
  | { type: 'event'; event: SupervisorEvent }
  /** An execution has produced events up to `seq`, so it is cached. */
  | { type: 'cached'; executions: (CachedExecution & { seq: number })[] }
  /** The orchestrator watches an execution that makes no progress. */
  | { type: 'failing'; execution: FailingExecution }
  /** The execution makes progress, or another one has replaced it. */
  | { type: 'no_longer_failing'; executionId: string }
  | ({ type: 'log' } & SentLine)

/** Why an executor is killed. `broken_line`: the executor sent a message that cannot be decoded, or closed the channel. */
export type KillReason = 'stuck_loop' | 'overdue' | 'broken_line'

// ── parent ↔ executor ──

/** Options of an executor's process, besides its number and its module. */
export interface ExecutorProcessOptions {
  /** Whether the executor reports the files that it loads. */
  reportsFiles: boolean
  log: LogOptions
  /** Absent if there are no spans. */
  traces?: SpanSettings | undefined
}

/** Messages from the parent to an executor. */
export type ParentToExecutor = { pawl: 'connect'; path: string } | { pawl: 'shutdown' }

/** Messages from an executor to the parent. User code can send messages, too; any other message is ignored. */
export type ExecutorToParent =
  | { pawl: 'loaded' }
  | { pawl: 'start_failed'; error: CrossingError }
  | ({ pawl: 'log' } & SentLine)
  /** The executor has loaded these files of the user, or they are missing. */
  | { pawl: 'files'; files: string[] }

// ── preflight ↔ the process that loads its module ──

/** The part of an open session that concerns its agent's code. */
export interface ReplayedSession {
  agent: string
  context: Json
  calls: UnfinishedCall[]
}

/** A call that has not ended, or whose outcome is unknown. */
export interface UnfinishedCall extends Pick<CallState, 'callId' | 'status'> {
  resolution: Pick<Resolution, 'tool' | 'effect' | 'schemaDigest' | 'client' | 'verify'>
  /** Absent if the arguments are no longer known. */
  input?: Json
}

/** A tool whose calls another agent answers. */
export interface DeclaredAgentCall {
  agent: string
  tool: string
  /** The agent that answers. */
  child: string
  /** The task queue that the tool names. */
  taskQueue?: string
  /** Whether the module has the agent that answers. */
  isServed: boolean
  /** The agents of a circle of calls that this one is part of, from the agent back to itself. */
  cycle?: string[]
}

/** Messages to the process. */
export interface ToChecker {
  pawl: 'check'
  request: number
  session: ReplayedSession
}

/** Messages from the process. User code can send messages, too; any other message is ignored. */
export type FromChecker =
  | Extract<ExecutorToParent, { pawl: 'start_failed' }>
  | { pawl: 'loaded'; unverified: UnverifiedTool[]; agentCalls: DeclaredAgentCall[] }
  | { pawl: 'checked'; request: number; warnings: PreflightWarning[] }

/** The tools of an agent's MCP server, or why they are unknown. */
export type ListedSource = { agent: string } & (SourceReport | { source: string; problem: string })

/** Messages from the process that lists MCP servers. */
export type FromLister = Extract<ExecutorToParent, { pawl: 'start_failed' }> | { pawl: 'listed'; sources: ListedSource[] }
