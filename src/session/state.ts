// The state of a session: the result of folding its events. Plain JSON, so that it can serve as a snapshot.
import type { StopReason, Usage } from './content.ts'
import type { CheckpointPolicy, RecoveryStrategy, Resolution, RunLimits, SessionStatus, Watermark } from './events.ts'
import type { Json, JsonObject } from './json.ts'

/** One tool call of the current turn. */
export interface CallState {
  callId: string
  index: number
  /** The raw arguments; removed when the call has ended. */
  input?: Json
  resolution: Resolution
  status:
    | 'requested'
    /** Dispatched, or about to be. */
    | 'issued'
    | 'awaiting_approval'
    | 'awaiting_answer'
    /** The outcome is unknown, and a person must resolve it. */
    | 'awaiting_resolution'
    | 'completed'
    | 'failed'
    | 'unknown'
  /** The terms of the request that the call waits for. Times are milliseconds since 1970. */
  asked?: { expiresAt?: number; onExpiry?: 'deny' | 'error'; digest?: string; reason?: string }
  /** A person has approved it. */
  approved?: true
  /** Attempts before the call started waiting. */
  attempts?: number
  /** The last progress that an attempt reported. */
  progress?: Json
}

/** The run in progress, or the one that failed. */
export interface RunState {
  run: number
  /** The message that opened the run. */
  messageId: string
  /** The message's metadata; empty until the run's first answer, which carries it. */
  metadata: JsonObject
  startedAt: number
  turn: number
  /** The next step of the run. */
  phase: 'turn_due' | 'model' | 'tools' | 'answered'
  limits?: RunLimits
  calls: CallState[]
  /** Calls of the turn that did not fit into `calls`, because a snapshot is bounded: the events have them. */
  leftOut?: LeftOutCall[]
  stopReason?: StopReason
  usage: Usage
  /** The messages that the run's turns have taken, in order: `restart_run` puts them back into the inbox. */
  taken: QueuedMessage[]
  /** Bytes of the entries in `taken`. */
  takenBytes: number
  /** The run took more messages than the state can hold, so it cannot be restarted. */
  tookMore?: true
  /** Effects other than reads that completed, or may have, the newest 10: `restart_run` would repeat them. */
  effects: string[]
  /** How many more there are. */
  moreEffects: number
  /** `seq` of the newest `model_completed`, and the id of the last message before it in the transcript. */
  answerSeq?: number
  beforeAnswer?: string
}

/** A reference to a call that a bounded state leaves out. */
export type LeftOutCall = Pick<CallState, 'callId' | 'status'> & Pick<Resolution, 'tool' | 'inputDigest'>

/** An accepted message. Its content and metadata are in its `message_received`. */
export interface QueuedMessage {
  messageId: string
  /** `seq` of its `message_received`. */
  seq?: number
}

/** Why a session is in `error`. */
export interface SessionError {
  code: string
  reason: string
  run?: number
  at: number
  /** `automatic`: pawl continues by itself once the cause is gone. */
  strategy: RecoveryStrategy | 'automatic'
}

/** A call that may have happened, with the data that `verify` needs to check again. */
export interface UnknownCall {
  run: number
  turn: number
  attempt: number
  /** Absent: too large to keep. */
  input?: Json
  resolution: Resolution
  /** How long after its workflow was lost the body may still be running, because nobody saw it die. */
  aliveForMs?: number
}

/** The data of the newest checkpoint that the next one needs. */
export interface CheckpointState {
  version: number
  seq: number
  at: number
  /** The session's turns at that point. */
  turns: number
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
  /** Number of the newest run. */
  run: number
  current: RunState | null
  error: SessionError | null
  /** Received messages that no turn has taken yet, in order. */
  inbox: QueuedMessage[]
  /** Bytes of JSON of the entries in `inbox`, which are limited. */
  inboxBytes: number
  /** Short hashes of the newest 2,000 message ids accepted, for deduplication. */
  accepted: string[]
  /** Completed effects by short hash of their idempotency key, the newest 100. Older ones are found when a call is resolved. */
  keys: Record<string, string>
  /** Calls whose outcome is unknown, by call id. */
  unknown: Record<string, UnknownCall>
  turns: number
  usage: Usage
  /** Id of the transcript's last message. */
  lastMessageId?: string
  checkpoint?: CheckpointState
  /** The policy of the newest turn's agent; absent: every turn. */
  checkpointPolicy?: CheckpointPolicy
  /** Events before this point can no longer be read; absent: none are missing. */
  origin?: Watermark
  forkedFrom?: { sessionId: string; seq: number }
  /** The session whose id is in idempotency keys of a whole session; absent: this session. */
  keysOf?: string
}
