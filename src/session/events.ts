// The events of a session. The session's events, in `seq` order, *are* the session: all else is folded from them.
import type { AssistantBlock, ImageBlock, StopReason, TextBlock, Usage, UserBlock } from './content.ts'
import type { Json, JsonObject } from './json.ts'

/** What a tool does to the world, and so what may be done after a crash. See DESIGN: "Tool execution, exactly". */
export type Effect = 'read' | 'idempotent' | 'external'

/** How a session in `error` may go on. */
export type RecoveryStrategy = 'restart_run' | 'restart_from_last_effect' | 'selective' | 'manual' | 'abandon'

/** One failed attempt of a model call or a tool call. */
export interface FailedAttempt {
  /** Counted from 1 over all of the call's activities. */
  attempt: number
  /** Class name of what was thrown, or `WorkerDied`, `HeartbeatTimeout`, `Timeout`. */
  class: string
  /** The error's own code, where it has one (`rate_limit_error`, `ECONNRESET`, …). */
  code?: string
  /** What went wrong. */
  message: string
  /** Whether another attempt was allowed. */
  retryable: boolean
  /** How long until the next attempt, in milliseconds, if one followed. */
  nextDelayMs?: number
  /** Which worker process it was (`host:pid`), where known. */
  worker?: string
}

/** How long after an outcome became unknown `verify`'s "it did not happen" counts, where a tool says nothing else. */
export const SETTLE_AFTER_MS = 5_000

/** What the worker that made the model call says of a tool call that the model asked for: recorded, so deterministic. */
export interface Resolution {
  /** Place of the call among the turn's calls, from 0. */
  index: number
  /** The tool's name. */
  tool: string
  /** Why the call cannot run at all: the model gets this as an error result. */
  invalid?: { code: 'unknown_tool' | 'invalid_arguments' | 'invalid_idempotency_key'; message: string }
  /** The tool's effect. */
  effect: Effect
  /** The idempotency key; never for `read`. */
  key?: string
  /** The call that completed this key's effect before, where one did. */
  replayOf?: string
  /** Digest of tool name and canonical raw arguments: tells that two calls are the same intent. */
  inputDigest: string
  /** Digest of the tool's input schema, so that another build notices a change. */
  schemaDigest: string
  /** Milliseconds that one execution of the body may take. */
  timeoutMs: number
  /** How attempts that threw are repeated. */
  retry: { maxRetries: number; baseDelayMs: number }
  /** Whether the tool has a `verify`. */
  verify: boolean
  /** Of one asking of `verify`, where it differs from what holds for the body. */
  verifyTimeoutMs?: number
  /** How long "it did not happen" is not believed yet, where it is not `SETTLE_AFTER_MS`. */
  settleAfterMs?: number
  /** How often a `verify` that threw is called again. */
  verifyRetries?: number
  /** What happens to a call whose outcome stays unknown. Absent: the model is told. */
  onUnknown?: 'ask' | 'tell_model'
  /** A person has to agree before the call is executed. */
  approval?: ApprovalTerms
  /** The call is not executed by a worker: somebody outside answers it. */
  client?: { timeoutMs?: number }
}

/** On what terms a call needs a person's approval. */
export interface ApprovalTerms {
  /** Why, as the tool says it. */
  reason?: string
  /** Milliseconds from the request to its expiry. */
  expiresMs: number
  /** What becomes of a call whose request expires. */
  onExpiry: 'deny' | 'error'
}

/** An event after which a checkpoint is made: of a type, and of one tool or one milestone where those are named. */
export interface CheckpointTrigger {
  /** Type of the event, such as `tool_completed`; not `checkpoint_made`. */
  type: string
  /** Name of the tool. Default: any. */
  tool?: string
  /** Name of the milestone, for `milestone_reached`. Default: any. */
  milestone?: string
}

/** When checkpoints are made: data, so that it can be recorded. See `checkpoint` of `defineAgent`. */
export type CheckpointPolicy = 'turn' | 'tool_call' | { everyTurns: number } | { everyMs: number } | { on: readonly CheckpointTrigger[] }

/** A point of a session's past: a checkpoint by its version, or the moment before a message was taken in or a run began. */
export type Target = { checkpoint: number } | { message: string } | { run: number }

/** An effect that going back does not undo. */
export interface EffectReport {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** The tool's name. */
  tool: string
  /** `unknown`: it may have happened. */
  status: 'completed' | 'unknown'
  /** The effect's name in the outside world, where the tool gives one. */
  effectId?: string
}

/** Where a value too large for history lies: in the side store, by the sha256 of its JSON text. */
export interface BlobRef {
  /** Of the JSON text, in hex. */
  sha256: string
  /** Of the JSON text, in UTF-8. */
  bytes: number
  /** How it begins. */
  preview: string
}

/** The limits of a run, as the agent of the serving worker declares them. */
export interface RunLimits {
  /** Model calls that the run may make. */
  maxTurns: number
  /** Milliseconds from the run's start; absent: none. */
  deadlineMs?: number
}

/** Text or blocks that stand in a tool result for the model. */
export type ResultContent = string | (TextBlock | ImageBlock)[]

/** What happened, without its place in the session. */
export type EventBody =
  | {
      type: 'session_started'
      sessionId: string
      agent: string
      context: Json
      tags: string[]
      executionId: string
      coreVersion: number
      /** It was there before, but what it had said can be read nowhere any more: numbers go on from this run. */
      after?: { run: number; checkpoint: number; origin: Watermark }
    }
  /** A session whose workflow had closed resumes in a new chain of executions. `resetOf`: the execution that an operator has reset. */
  | { type: 'session_resumed'; executionId: string; fromEpoch: string; coreVersion: number; resetOf?: string }
  /** `blob`: the content as a whole; `content` is then only how it begins. */
  | { type: 'message_received'; messageId: string; content: string | UserBlock[]; metadata?: JsonObject; blob?: BlobRef }
  | { type: 'message_rejected'; messageId?: string; code: string; reason: string }
  | { type: 'run_started'; run: number; messageId: string }
  /** `takes`: ids of the received messages that the model sees from this turn on, in order. */
  | { type: 'turn_started'; run: number; turn: number; takes: string[] }
  | { type: 'model_attempt_failed'; run: number; turn: number; error: FailedAttempt }
  | {
      type: 'model_completed'
      run: number
      turn: number
      attempt: number
      model: string
      /** As the model gave it, its own tool_use ids included. */
      content: AssistantBlock[]
      stopReason: StopReason
      usage: Usage
      calls: Resolution[]
      limits: RunLimits
      /** Absent: every turn. */
      checkpoint?: CheckpointPolicy
      /** Of the message that opened the run, with the run's first answer: from here on its tools have it. */
      metadata?: JsonObject
    }
  /** The call is about to be dispatched (or to be answered without being run). */
  | {
      type: 'tool_issued'
      run: number
      turn: number
      callId: string
      index: number
      tool: string
      effect: Effect
      key?: string
      /** The raw arguments, as the model gave them. */
      input: Json
      inputDigest: string
      /** Another build's resolution, which took the place of the one that came with the request: the call is issued once more. */
      resolution?: Resolution
    }
  | { type: 'tool_attempt_failed'; run: number; turn: number; callId: string; tool: string; error: FailedAttempt }
  | {
      type: 'tool_completed'
      run: number
      turn: number
      callId: string
      tool: string
      attempt: number
      /** What `execute` returned; absent for a replay. */
      value?: Json
      /** What the model is given, where it is not `value` itself. */
      content?: ResultContent
      /** The effect's name in the outside world (a refund's id). */
      effectId?: string
      /** Value and content, as the JSON text of `{ value, content }`, where they are too large for history. */
      blob?: BlobRef
      /** The call whose completed effect this one asked for again: nothing was executed. */
      replayOf?: string
      startedAt?: number
      worker?: string
    }
  /** An error result for the model: it did not happen, or it is safe to say that it failed. */
  | { type: 'tool_failed'; run: number; turn: number; callId: string; tool: string; attempt: number; code: string; message: string }
  /**
   * Nobody knows whether the effect happened. `again`: the same intent as an earlier unknown call, not executed.
   * `ask`: the session waits for a person to say. `aliveForMs`: for so long, from this event, its body may still be at work.
   */
  | {
      type: 'tool_unknown'
      run: number
      turn: number
      callId: string
      tool: string
      attempt: number
      message: string
      again?: string
      ask?: true
      aliveForMs?: number
    }
  /** `verify`, a person, or the worker itself, late, said what became of a call whose outcome was unknown. */
  | {
      type: 'tool_resolved'
      run: number
      turn: number
      callId: string
      tool: string
      by: 'verify' | 'person' | 'worker'
      /** Whether it happened; a person who does not know either may have it executed again, or left undone. */
      happened: boolean
      decision?: 'retry' | 'skip'
      value?: Json
      content?: ResultContent
      blob?: BlobRef
      effectId?: string
      /** Which person, and why. */
      decidedBy?: string
      note?: string
    }
  /** The last that a call's attempt said of how far it is; the next attempt is given it. */
  | { type: 'tool_progress'; run: number; turn: number; callId: string; tool: string; attempt: number; value: Json }
  | { type: 'milestone_reached'; run: number; turn: number; callId: string; tool: string; name: string }
  /** A person has to agree to exactly these arguments (`digest`: the call's `inputDigest`). */
  | {
      type: 'approval_requested'
      run: number
      turn: number
      callId: string
      tool: string
      digest: string
      reason?: string
      expiresAt: number
      onExpiry: 'deny' | 'error'
    }
  | {
      type: 'approval_decided'
      run: number
      turn: number
      callId: string
      tool: string
      /** Of the arguments that were decided on. */
      digest: string
      approved: boolean
      by?: string
      note?: string
      /** For the model, where it was denied. */
      reason?: string
      /** Nobody decided in time. */
      expired?: true
      /** Approved with these arguments in place of the model's, and how they were resolved. */
      input?: Json
      resolution?: Resolution
    }
  /** Somebody outside has to answer the call. */
  | { type: 'answer_requested'; run: number; turn: number; callId: string; tool: string; expiresAt?: number }
  /** The answer itself stands in the `tool_completed` that follows. */
  | { type: 'answer_received'; run: number; turn: number; callId: string; tool: string; by?: string }
  /** A point to go back to or fork from. `lastMessageId`: the last message of the transcript there. */
  | { type: 'checkpoint_made'; version: number; run?: number; turn?: number; reason: string; by?: string; lastMessageId?: string }
  /**
   * The session is again where it was after event `toSeq`, but for what only grows. Messages that no turn had taken are archived too
   * if they came up to `upToSeq`. `keepsRun`: only the turn that was going on is left behind; its run goes on.
   */
  | {
      type: 'rolled_back'
      toSeq: number
      upToSeq: number
      target?: Target
      keepsRun?: true
      lastMessageId?: string
      by?: string
      reason?: string
      /** Not undone by it; at most 100, the newest. */
      effects: EffectReport[]
      moreEffects?: number
    }
  /** The events up to here are another session's: this one goes on from there on its own. */
  | {
      type: 'forked'
      sessionId: string
      executionId: string
      coreVersion: number
      from: { sessionId: string; seq: number }
      target?: Target
      /** Whether what the other session has completed counts as completed here. */
      keys: 'carried' | 'forgotten'
      tags?: string[]
      by?: string
    }
  | { type: 'run_completed'; run: number; turns: number; stopReason: StopReason; usage: Usage }
  | { type: 'run_interrupted'; run: number; reason?: string; by?: string }
  | { type: 'error_entered'; run?: number; code: string; reason: string; strategy: RecoveryStrategy | 'automatic' }
  | { type: 'recovery_started'; run?: number; strategy: RecoveryStrategy | 'automatic'; by?: string }
  | { type: 'recovery_ended'; run?: number; strategy: RecoveryStrategy | 'automatic' }
  | { type: 'session_closed'; reason: 'idle' | 'requested'; by?: string }

/**
 * One fact about a session. `at` is milliseconds since 1970 by the workflow's clock; `v` is the encoding's version.
 */
export type SessionEvent = { v: 1; seq: number; at: number } & EventBody

/** The name of an event. */
export type EventType = SessionEvent['type']

/** The event of one type. */
export type EventOf<T extends EventType> = Extract<SessionEvent, { type: T }>

/** An event as it travels: its JSON text, and the rolling digest of all of the session's events up to it. */
export interface LogEntry {
  seq: number
  /** Digest of the entry before; empty for the first. */
  prev: string
  digest: string
  /** `JSON.stringify(event)`; the digest is over exactly this text. */
  json: string
}

/** The last event known to be durable in Temporal history. */
export interface Watermark {
  /** Number of the event within the session, from 1. */
  seq: number
  /** Rolling digest of all events up to it. */
  digest: string
}

/** Status of a session. */
export type SessionStatus = 'idle' | 'running' | 'waiting' | 'error' | 'closed'

/** States of a tool call. */
export type ToolCallStatus =
  | 'issued'
  | 'running'
  | 'awaiting_approval'
  | 'awaiting_answer'
  | 'completed'
  | 'failed'
  | 'denied'
  | 'unknown'
  | 'replayed'
  | 'skipped'

/** Our own identity of a tool call: the place of its request. Also its id on the wire to the model. */
export function callIdOf(run: number, turn: number, index: number): string {
  return `t_${run}_${turn}_${index}`
}

/** The message id of what the model answered in a turn. */
export function answerIdOf({ run, turn }: { run: number; turn: number }): string {
  return `m_${run}_${turn}`
}

/** The message id of the results of a turn's tool calls. */
export function resultsIdOf({ run, turn }: { run: number; turn: number }): string {
  return `r_${run}_${turn}`
}
