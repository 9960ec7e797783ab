// The state of a session: what folding its events gives. Plain JSON, so that it is also a snapshot.
import type { StopReason, Usage } from './content.ts'
import type { CheckpointPolicy, RecoveryStrategy, Resolution, RunLimits, SessionStatus, Watermark } from './events.ts'
import type { Json, JsonObject } from './json.ts'

/** One tool call of the turn that is going on. */
export interface CallState {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Place of the call among the turn's calls, from 0. */
  index: number
  /** The raw arguments; dropped when the call has ended. */
  input?: Json
  /** What the worker said of the call when the model asked for it. */
  resolution: Resolution
  /** How the call stands. */
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
  /** Number of the run within the session, from 1. */
  run: number
  /** The message that opened it. */
  messageId: string
  /** Of that message; empty until the run's first answer, which brings it. */
  metadata: JsonObject
  /** When it began, in milliseconds since 1970. */
  startedAt: number
  /** Number of the turn within the session, from 1. */
  turn: number
  /** What has to happen next in it. */
  phase: 'turn_due' | 'model' | 'tools' | 'answered'
  /** Its bounds, as its first answer brought them. */
  limits?: RunLimits
  /** Calls of the newest turn. */
  calls: CallState[]
  /** Calls of the turn that are not among `calls`, because a state that is carried, loaded or shown is bounded: the events have them. */
  leftOut?: LeftOutCall[]
  /** Why the model stopped last. */
  stopReason?: StopReason
  /** Tokens used by the run. */
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
  /** Id of the transcript's last message before the newest answer. */
  beforeAnswer?: string
}

/** A call that a bounded state does not hold. */
export type LeftOutCall = Pick<CallState, 'callId' | 'status'> & Pick<Resolution, 'tool' | 'inputDigest'>

/** A message that was accepted. What it says, and its metadata, are in its `message_received`. */
export interface QueuedMessage {
  /** The message's id. */
  messageId: string
  /** Of its `message_received`. */
  seq?: number
}

/** Why a session is in `error`. */
export interface SessionError {
  /** What programs branch on. */
  code: string
  /** What happened, and what to do about it. */
  reason: string
  /** The run that failed, if it was one. */
  run?: number
  /** When, in milliseconds since 1970. */
  at: number
  /** `automatic`: pawl goes on by itself once the cause is gone. */
  strategy: RecoveryStrategy | 'automatic'
}

/** A call that may have happened; kept with what `verify` needs, so that it can be asked again. */
export interface UnknownCall {
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the session, from 1. */
  turn: number
  /** The attempt whose outcome is unknown. */
  attempt: number
  /** Absent: too large to be kept. */
  input?: Json
  /** What the worker said of the call when the model asked for it. */
  resolution: Resolution
  /** For so long after its workflow was lost its body may still be at work, for nobody saw it die. */
  aliveForMs?: number
}

/** The newest checkpoint, as the next one needs it. */
export interface CheckpointState {
  /** The checkpoint's number. */
  version: number
  /** The last event before it. */
  seq: number
  /** When it was made, in milliseconds since 1970. */
  at: number
  /** Of the session by then. */
  turns: number
}

/** The state of a session. */
export interface SessionState {
  /** Version of the encoding. */
  v: 1
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The first execution of the chain that wrote the newest events. */
  epoch: string
  /** Whom the session is for. */
  context: Json
  /** What lists can be filtered by. */
  tags: string[]
  /** How the session stands. */
  status: SessionStatus
  /** `seq` of the last event folded. */
  seq: number
  /** When it was created, in milliseconds since 1970. */
  createdAt: number
  /** When its last event happened, in milliseconds since 1970. */
  updatedAt: number
  /** Number of the last run. */
  run: number
  /** The run that is going on, or the one that the session failed in. */
  current: RunState | null
  /** Why the session is in `error`. */
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
  /** Turns so far. */
  turns: number
  /** Tokens used by the session. */
  usage: Usage
  /** Id of the transcript's last message. */
  lastMessageId?: string
  /** The newest checkpoint. */
  checkpoint?: CheckpointState
  /** Of the newest turn's agent; absent: every turn. */
  checkpointPolicy?: CheckpointPolicy
  /** What lies before it can be read nowhere any more; absent: nothing is missing. */
  origin?: Watermark
  /** The session that it was forked from, and the last event that is that one’s. */
  forkedFrom?: { sessionId: string; seq: number }
  /** The session whose name is in idempotency keys that count for a whole session; absent: this one. */
  keysOf?: string
}
