// What a session knows of a tool call: its resolution, its attempts, its result and its effect.
import type { UserBlock } from './content.ts'
import type { Budget, Cost } from './spending/spend.ts'
import type { Json } from './json.ts'

/** What a tool does to the outside world, and therefore what may be repeated after a crash. */
export type Effect = 'read' | 'idempotent' | 'external'

/** One failed attempt of a model call or a tool call. */
export interface FailedAttempt {
  /** Number of the attempt, from 1, counted across all of the call's activities. */
  attempt: number
  /** Class name of the thrown error, or `WorkerDied`, `HeartbeatTimeout`, `Timeout`. */
  class: string
  /** The error's own code, if it has one (`rate_limit_error`, `ECONNRESET`, …). */
  code?: string
  /** What went wrong. */
  message: string
  /** Where it was thrown, at most 3,000 bytes: one frame a line, the user's own code first, then the causes with their frames. */
  stack?: string
  /** `stream`: the model had begun to answer. */
  phase?: 'stream'
  /** Whether another attempt was allowed. */
  retryable: boolean
  /** Milliseconds until the next attempt, if one followed. */
  nextDelayMs?: number
  /** The executor (`host:pid`), if known. */
  worker?: string
  /** For a model call: the `name` of the model that failed, if one was called. */
  model?: string
  /** For a model call: the `provider` of that model, if it names one. */
  provider?: string
  /** For a model call under a budget: its cost. Absent: it cost nothing. */
  spent?: Cost
  /**
   * Set if the error does not say whether another attempt may help: a digest of its class, its code and the place where it was thrown. If
   * the next attempt has the same digest, the error is permanent.
   */
  unexpected?: string
}

/** Default of `settleAfter`: milliseconds after an outcome became unknown before "it did not happen" from `verify` counts. */
export const SETTLE_AFTER_MS = 5_000

/**
 * How the worker that made the model call resolved one of the tool calls that the model requested. It is recorded, and therefore
 * deterministic.
 */
export interface Resolution {
  /** Position of the call among the turn's calls, from 0. */
  index: number
  /** The tool's name. */
  tool: string
  /** Why the call cannot run. The model receives this as an error result. */
  invalid?: {
    code:
      | 'unknown_tool'
      | 'cut_off'
      | 'invalid_arguments'
      | 'invalid_idempotency_key'
      | 'denied'
      | 'invalid_output'
      | 'outcome_unknown'
      | 'invalid_context'
    message: string
  }
  /** The tool's effect. */
  effect: Effect
  /** The call's generation, from 2, if a recovery made the call again. Absent: the first generation. */
  generation?: number
  /** The idempotency key; absent for `read`. */
  key?: string
  /** The first generation's key, if `key` differs from it because the completed effect is to happen again. */
  firstKey?: string
  /** The call that already completed the effect with this key, if there is one. */
  replayOf?: string
  /** Digest of tool name and canonical raw arguments: two calls with the same digest have the same intent. */
  inputDigest: string
  /** The same digest for the model's own arguments, if a hook changed them. */
  ownDigest?: string
  /** Digest of the tool's input schema, so that another build notices a change. */
  schemaDigest: string
  /** Milliseconds that one attempt of the body may take. */
  timeoutMs: number
  /** How pawl retries attempts that threw. */
  retry: { maxRetries: number; baseDelayMs: number }
  /** Whether the tool has a `verify`. */
  verify: boolean
  /** Milliseconds that one call of `verify` may take, if not `timeoutMs`. */
  verifyTimeoutMs?: number
  /** Milliseconds before "it did not happen" from `verify` counts, if not `SETTLE_AFTER_MS`. */
  settleAfterMs?: number
  /** How many times pawl retries a `verify` that threw. */
  verifyRetries?: number
  /** What happens if the outcome stays unknown. Absent: pawl tells the model. */
  onUnknown?: 'ask' | 'tell_model'
  /** A person must approve the call before it is executed. */
  approval?: ApprovalTerms
  /** The rule that approves it in a person's place, if it still holds when the call is issued. */
  approvedBy?: ApprovedBy
  /**
   * A client answers the call; no worker executes it. `agent`: a session of this agent answers it. `sleeps`: nobody answers it; it ends after
   * that time, or when a message arrives.
   */
  client?: { timeoutMs?: number; agent?: AgentTerms; sleeps?: true }
  /** One of pawl's own tools: the workflow answers the call, and no worker executes it. */
  builtIn?: 'plan' | 'memory' | 'output'
  /** For a call that submits the run's output: the arguments as the schema transformed them, if it changed them. */
  output?: Json
}

/** A call with its resolution. */
export interface ResolvedCall {
  resolution: Resolution
  /** The raw arguments, as hooks may have changed them. */
  input: Json
}

/** How a call of an agent is made. */
export interface AgentTerms {
  /** The agent's name. */
  name: string
  /** Context of the session that answers, if it is not the caller's. */
  context?: Json
  /** The task queue of the workers that serve the agent, if it is not the caller's. */
  taskQueue?: string
  /** What the answer may cost. Absent: a share of what the caller has left. */
  budget?: Budget
  /** The call does not wait for the answer. */
  background?: true
}

/** Who may decide about a call. */
export interface Approvers {
  /** A person with this role. */
  role: string
}

/** What approves a call instead of a person. */
export interface ApprovedBy {
  /** The rule's id. */
  rule: string
  /** `session`: a rule of the session, which its state has; `context`: one that the side store has. */
  for: 'session' | 'context'
  /** Who gave it. */
  by?: string
}

export interface ApprovalTerms {
  /** The tool's reason. */
  reason?: string
  /** Who may decide. Absent: anyone. */
  approvers?: Approvers
  /** A function that should have decided has failed, so a person must: no rule may. */
  failed?: true
  /** Milliseconds until the request expires. */
  expiresMs: number
  /** What happens to a call whose request expires. */
  onExpiry: 'deny' | 'error'
}

/** An effect that a rollback does not undo. */
export interface EffectReport {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** The tool's name. */
  tool: string
  /** `unknown`: it may have happened. */
  status: 'completed' | 'unknown'
  /** The effect's id in the outside world, if the tool returns one. */
  effectId?: string
}

/** Reference to a value that is too large for history. The side store holds it under the sha256 of its JSON text. */
export interface BlobRef {
  /** The sha256 of the JSON text, in hex. */
  sha256: string
  /** Length of the JSON text, in UTF-8 bytes. */
  bytes: number
  /** The beginning of the value. */
  preview: string
}

export interface RunEffect {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** The tool's name, shortened. */
  tool: string
  /** The effect's id in the outside world, if the tool returns one; shortened. */
  effectId?: string
}

/** Text or blocks of a tool result. */
export type ResultContent = string | UserBlock[]

/** The states of a tool call. */
export type ToolCallStatus =
  | 'issued'
  | 'running'
  | 'awaiting_approval'
  | 'awaiting_answer'
  /** It waits for a time or a message. */
  | 'asleep'
  | 'completed'
  | 'failed'
  | 'denied'
  | 'unknown'
  | 'replayed'
  | 'skipped'

/**
 * Milliseconds after its timeout until the process of an `external` body is ended. If no supervisor confirms a death, other workers count
 * the body as dead once the timeout plus this time has passed since they learned that its heartbeats stopped.
 */
export const OVERDUE_GRACE_MS = 5_000
