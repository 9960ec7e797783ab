// The state of a session: what folding its events gives. Plain JSON, so that it is also a snapshot.
import type { StopReason, Usage } from './content.ts'
import type { Effect, RecoveryStrategy, Resolution, RunLimits, SessionStatus } from './events.ts'
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
  /** Effects other than reads that completed, or may have: what `restart_run` would repeat. */
  effects: string[]
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

/** What a key or an intent has come to. */
export interface LedgerEntry {
  callId: string
  effect: Effect
  status: 'completed' | 'unknown'
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
  inbox: { messageId: string; metadata?: JsonObject }[]
  /** Ids of all messages ever accepted (hashes of the newest), for deduplication. */
  accepted: string[]
  /** By idempotency key: completed and unknown effects. */
  keys: Record<string, LedgerEntry>
  /** By input digest: calls whose outcome is unknown. */
  unknown: Record<string, LedgerEntry>
  turns: number
  usage: Usage
}

