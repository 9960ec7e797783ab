// The rows that the side store's readers return.
import type { Message, Usage } from '../session/content.ts'
import type { SessionEvent, SessionStatus, Watermark } from '../session/events.ts'
import type { ToolCallStatus } from '../session/call-facts.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { Pause, SessionError } from '../session/state.ts'

/** A session's head: how far its events are stored. */
export interface StoredHead extends Watermark {
  epoch: string
}

/** One row of `sessions`. */
export interface SessionRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** Its status. */
  status: SessionStatus
  /** The first execution of the chain that wrote its events. */
  epoch: string
  /** Number of its last run. */
  run: number
  /** Turns so far. */
  turns: number
  /** Who the session is for. */
  context: Json
  /** Tags that lists can filter by. */
  tags: string[]
  /** Why it is in `error`. */
  error: SessionError | null
  /** When it was paused, by whom and why; null if it is not paused. */
  paused: Pause | null
  /** Tokens used. */
  usage: Usage
  /** `seq` of the last stored event. */
  flushedSeq: number
  /** When it was created. */
  createdAt: Date
  /** When its last event happened. */
  updatedAt: Date
}

/** One row of `messages`: a message of the transcript, as the model sees it. */
export interface MessageRow {
  /** The caller's `messageId` for a user's message, `m_<run>_<turn>` for the model's, `r_<run>_<turn>` for tool results. */
  messageId: string
  /** `seq` of the event that added it. */
  seq: number
  /** Null until a run takes the message. */
  run: number | null
  /** The turn that took it or, for an answer, produced it. */
  turn: number | null
  /** The speaker, as in the Messages API. */
  role: Message['role']
  /** Which side the message comes from; `scheduled`: a user's message that is delivered later. */
  kind: 'user' | 'assistant' | 'tool_results' | 'scheduled'
  /** Text, or content blocks. */
  content: Message['content']
  /** Metadata that the caller sent with it. */
  metadata: JsonObject | null
  /** Who sent it, as given by the sender. */
  by: string | null
  /** When it was accepted or, if it had been scheduled, delivered. */
  at: Date
  /** When a user's message is to be delivered, or was; null: it was not scheduled. */
  scheduledFor: Date | null
}

/** One row of `tool_calls`. */
export interface ToolCallRow {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** Place of the call among the turn's calls, from 0. */
  index: number
  /** The tool's name. */
  tool: string
  /** The tool's effect. `read` for pawl's own tools, which change only the session. */
  effect: string
  /** The idempotency key; null for a `read`. */
  key: string | null
  /** The arguments that it is executed with. */
  input: Json
  /** The model's own arguments, if a hook or a person changed them; otherwise null. */
  modelInput: Json
  /** The call's status. */
  status: ToolCallStatus
  /** Attempts so far. */
  attempt: number
  /** What it returned. */
  result: Json
  /** Why it failed. */
  error: { code: string; message: string } | null
  /** The effect's id in the outside world. */
  effectId: string | null
  /** The call whose result it received instead of being executed. */
  replayOf: string | null
  /** The executor (`host:pid`); null if unknown. */
  worker: string | null
  /** When the model requested it. */
  issuedAt: Date
  /** When it ended. */
  completedAt: Date | null
}

/** One row of `errors`: a failed attempt, or (without an attempt) the failure of a whole run. */
export interface ErrorRow {
  /** The event that records it. */
  seq: number
  /** Number of the run. */
  run: number | null
  /** Number of the turn. */
  turn: number | null
  /** `model`, `tool:<name>`, `compaction`, `checkpoint` or `run`. */
  context: string
  /** The tool call that failed; null if it was not a tool call. */
  callId: string | null
  /** Number of the attempt, from 1; null if the whole run failed. */
  attempt: number | null
  /** Class name of what was thrown, or `WorkerDied`, `HeartbeatTimeout`, `Timeout`. */
  class: string
  /** The error's own code. */
  code: string | null
  /** What went wrong. */
  message: string
  /**
   * Where it was thrown: one frame a line, the user's own code first, then packages, then the causes; null if there was no exception, or it
   * had no frames.
   */
  stack: string | null
  /** Whether another attempt was allowed. */
  retryable: boolean
  /** The executor (`host:pid`); null if unknown. */
  worker: string | null
  /** The model that failed; null if it was not a model. */
  model: string | null
  /** `stream` if the model had begun to answer; null if it had not, or if it was not a model. */
  phase: 'stream' | null
  /** When it happened. */
  at: Date
  /** When the session left the error; null if it is still in it, or if no whole run failed. */
  endedAt: Date | null
  /** How it left the error: its cause ended or pawl recovered the run (`itself`), or a person acted. Null whenever `endedAt` is. */
  endedBy: 'itself' | 'person' | null
  /**
   * What followed the failure of a run. `failed`: another error. `rolled_back`: the session was rolled back, or the answer regenerated.
   * `interrupted`, `abandoned`, `closed`: the run was given up. Null if nothing has followed yet, or if no whole run failed.
   */
  outcome: 'completed' | 'failed' | 'interrupted' | 'rolled_back' | 'abandoned' | 'closed' | null
}

/** A session's progress with its plan. */
export interface PlanProgress {
  /** Number of the plan's version. */
  version: number
  /** What the plan is for. */
  objective: string
  /** How many steps it has. */
  steps: number
  /** How many of them are done. */
  done: number
}

/** Reference to a content block whose value is too large for the row. */
export interface BlobPlace {
  /** Index of the block; null for the whole content, or for the own blocks of the provider in an answer. */
  block: number | null
  /** SHA-256 of the JSON text, in hex, as `session.blob` accepts it. */
  sha256: string
  /** Size of the JSON text, in UTF-8. */
  bytes: number
}

/** Events of a session that a transaction has written. */
export interface WrittenEvents {
  sessionId: string
  agent: string
  events: readonly SessionEvent[]
  /** What ended with them. */
  endings: readonly Ending[]
}

/** What ended: an error, after so many milliseconds; the run of a recovery; or an incident, which begins with a run's first error. */
export type Ending =
  | { what: 'error'; code: string; by: 'itself' | 'person'; ms: number }
  | { what: 'recovery'; strategy: string; automatic: boolean; outcome: NonNullable<ErrorRow['outcome']> }
  | { what: 'incident'; code: string; outcome: 'healed_by_itself' | 'healed_by_person' | 'rolled_back' | 'given_up' }

/** Where a message's events begin. */
export interface MessagePlace {
  /** The `seq` before its `message_received` or `message_rejected`, or, while neither is stored, the session's head; 0 if it is unknown. */
  after: number
  /** The `seq` before the `message_received` of an archived message with that id, whose events are still there. */
  archived?: number
  /** Only a refusal of the message is stored: the session's head. The message may have been sent again since. */
  refusedBefore?: number
  /** The events are deleted. Unless `isPruned`, nothing has happened in the session since, as far as it is stored. */
  gone?: 'pruned' | 'erased'
  /** The archive has the message, and its events are deleted: it was pruned, whatever has happened since. */
  isPruned?: true
}
