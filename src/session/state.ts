// The state of a session: what folding its events gives. Plain JSON, so that it is also a snapshot.
import type { StopReason, Usage } from './content.ts'
import type { RecoveryStrategy, Resolution, RunLimits, SessionStatus } from './events.ts'
import type { Json, JsonObject } from './json.ts'

/** One tool call of the turn that is going on. */
export interface CallState {
  callId: string
  index: number
  /** The raw arguments; dropped when the call has ended. */
  input?: Json
  resolution: Resolution
  status: 'requested' | 'issued' | 'completed' | 'failed' | 'unknown'
}

/** The run that is going on, or the one that the session failed in. */
export interface RunState {
  run: number
  /** The message that opened it. */
  messageId: string
  metadata: JsonObject
  startedAt: number
  turn: number
  /** What has to happen next in it. */
  phase: 'turn_due' | 'model' | 'tools' | 'answered'
  limits?: RunLimits
  calls: CallState[]
  stopReason?: StopReason
  usage: Usage
  /** The messages that the run's turns have taken, in order. */
  taken: QueuedMessage[]
  /** Effects other than reads that completed, or may have, the newest 10: what `restart_run` would repeat. */
  effects: string[]
  /** How many more there are. */
  moreEffects: number
}

/** A message that was accepted, with what `run_started` needs of it. */
export interface QueuedMessage {
  messageId: string
  metadata?: JsonObject
}

/** Why a session is in `error`. */
export interface SessionError {
  code: string
  reason: string
  run?: number
  at: number
  /** `automatic`: pawl goes on by itself once the cause is gone. */
  strategy: RecoveryStrategy | 'automatic'
}

/** A call that may have happened; kept with what `verify` needs, so that it can be asked again. */
export interface UnknownCall {
  run: number
  turn: number
  attempt: number
  input: Json
  resolution: Resolution
}

/** The state of a session. */
export interface SessionState {
  v: 1
  sessionId: string
  agent: string
  /** The first execution of the chain that wrote the newest events. */
  epoch: string
  context: Json
  tags: string[]
  status: SessionStatus
  /** `seq` of the last event folded. */
  seq: number
  createdAt: number
  updatedAt: number
  /** Number of the last run. */
  run: number
  current: RunState | null
  error: SessionError | null
  /** Ids of received messages that no turn has taken yet, in order, with what `run_started` needs of them. */
  inbox: QueuedMessage[]
  /** Short hashes of the newest 2,000 message ids accepted, for deduplication. */
  accepted: string[]
  /** By short hash of the idempotency key, the newest 100: effects that completed. Older ones are found when a call is resolved. */
  keys: Record<string, string>
  /** Calls whose outcome is unknown, by call id. */
  unknown: Record<string, UnknownCall>
  turns: number
  usage: Usage
}
