// The state of a session: what folding its events gives. Plain JSON, so that it is also a snapshot.
import type { StopReason, Usage } from './content.ts'
import type { CheckpointPolicy, RecoveryStrategy, Resolution, RunLimits, SessionStatus, Watermark } from './events.ts'
import type { Json, JsonObject } from './json.ts'

/** One tool call of the turn that is going on. */
export interface CallState {
  callId: string
  index: number
  /** The raw arguments; dropped when the call has ended. */
  input?: Json
  resolution: Resolution
  status:
    | 'requested'
    /** Dispatched, or to be dispatched: it may be executed. */
    | 'issued'
    | 'awaiting_approval'
    | 'awaiting_answer'
    /** Unknown, and a person has to say what became of it. */
    | 'awaiting_resolution'
    | 'completed'
    | 'failed'
    | 'unknown'
  /** What the call waits for: until when (milliseconds since 1970), and on what terms. */
  asked?: { expiresAt?: number; onExpiry?: 'deny' | 'error'; digest?: string; reason?: string }
  /** A person has approved it. */
  approved?: true
  /** Attempts that were made before the call was left waiting. */
  attempts?: number
  /** The last that an attempt said of how far it is. */
  progress?: Json
}

/** The run that is going on, or the one that the session failed in. */
export interface RunState {
  run: number
  /** The message that opened it. */
  messageId: string
  /** Of that message; empty until the run's first answer, which brings it. */
  metadata: JsonObject
  startedAt: number
  turn: number
  /** What has to happen next in it. */
  phase: 'turn_due' | 'model' | 'tools' | 'answered'
  limits?: RunLimits
  calls: CallState[]
  /** Calls of the turn that are not among `calls`, because a state that is carried, loaded or shown is bounded: the events have them. */
  leftOut?: LeftOutCall[]
  stopReason?: StopReason
  usage: Usage
  /** The messages that the run's turns have taken, in order: what `restart_run` puts back into the inbox. */
  taken: QueuedMessage[]
  /** Of their entries in `taken`. */
  takenBytes: number
  /** They were too many to be kept in the state: the run cannot be restarted. */
  tookMore?: true
  /** Effects other than reads that completed, or may have, the newest 10: what `restart_run` would repeat. */
  effects: string[]
  /** How many more there are. */
  moreEffects: number
  /** `seq` of the newest `model_completed`, and the id of the transcript's last message before it. */
  answerSeq?: number
  beforeAnswer?: string
}

/** A call that a bounded state does not hold. */
export type LeftOutCall = Pick<CallState, 'callId' | 'status'> & Pick<Resolution, 'tool' | 'inputDigest'>

/** A message that was accepted. What it says, and its metadata, are in its `message_received`. */
export interface QueuedMessage {
  messageId: string
  /** Of its `message_received`. */
  seq?: number
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
  /** Absent: too large to be kept. */
  input?: Json
  resolution: Resolution
  /** For so long after its workflow was lost its body may still be at work, for nobody saw it die. */
  aliveForMs?: number
}

/** The newest checkpoint, as the next one needs it. */
export interface CheckpointState {
  version: number
  seq: number
  at: number
  /** Of the session by then. */
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
  /** Number of the last run. */
  run: number
  current: RunState | null
  error: SessionError | null
  /** Received messages that no turn has taken yet, in order. */
  inbox: QueuedMessage[]
  /** Bytes of JSON of their entries in `inbox`: only so many can wait. */
  inboxBytes: number
  /** Short hashes of the newest 2,000 message ids accepted, for deduplication. */
  accepted: string[]
  /** By short hash of the idempotency key, the newest 100: effects that completed. Older ones are found when a call is resolved. */
  keys: Record<string, string>
  /** Calls whose outcome is unknown, by call id. */
  unknown: Record<string, UnknownCall>
  turns: number
  usage: Usage
  /** Id of the transcript's last message. */
  lastMessageId?: string
  checkpoint?: CheckpointState
  /** Of the newest turn's agent; absent: every turn. */
  checkpointPolicy?: CheckpointPolicy
  /** What lies before it can be read nowhere any more; absent: nothing is missing. */
  origin?: Watermark
  forkedFrom?: { sessionId: string; seq: number }
  /** The session whose name is in idempotency keys that count for a whole session; absent: this one. */
  keysOf?: string
}
