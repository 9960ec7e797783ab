// The rows of the store's lists.
import type { SessionEvent } from '../session/events.ts'
import type { Json } from '../session/json.ts'
import type { Approvers } from '../session/call-facts.ts'
import type { CallQuestion } from '../session/question-facts.ts'
import type { SessionError } from '../session/state.ts'
import type { SessionRow, MessageRow, ToolCallRow, ErrorRow, PlanProgress, BlobPlace } from './rows.ts'

/** A compaction: the model sees a summary in place of a part of the conversation. */
export interface ListedCompaction {
  /** The event that records it. */
  seq: number
  /** Number of the run. */
  run: number
  /** Number of the turn; the compaction preceded its model call. */
  turn: number
  /** When it was made. */
  at: Date
  /** The last event that the summary replaces; 0 if nothing is replaced, and only results are shortened. */
  upToSeq: number
  /** The summary of everything up to there. */
  summary: string
  /** How many messages it replaces, not counting those that the previous summary replaced. */
  messages: number
  /** Tokens of the request that was too large, measured or estimated. */
  tokens: number
  /** Size of the model's context window, in tokens. */
  window: number
  /** Whether the provider had refused the request. */
  forced: boolean
  /** Bytes to which results of earlier calls were shortened; null if they were not shortened. */
  resultBytes: number | null
  /** The model that wrote the summary; null if pawl made no model call for it. */
  model: string | null
}

/** A session in a list. */
export interface ListedSession extends SessionRow {
  /** Its plan; null if it has none. */
  plan: PlanProgress | null
  /** The session that it was forked from. */
  parent: string | null
  /** The last event that it inherited from `parent`. */
  forkedSeq: number | null
  /** If it answers calls of another session: the root of its tree. Its caller's id is its own without the last part. Otherwise null. */
  root: string | null
  /** The model of the newest turn. */
  model: string | null
  /** Provider of that model. */
  provider: string | null
  /** Cost in US dollars; null without a known price. */
  usd: number | null
  /** Version of the newest checkpoint; 0 if there is none. */
  checkpoint: number
  /** Calls that wait for a person or a client. */
  waiting: number
  /** When its events were last stored. */
  flushedAt: Date
  /** When it was pruned. */
  prunedAt: Date | null
  /** When it was erased. */
  erasedAt: Date | null
}

/** A message in a list. */
export interface ListedMessage extends MessageRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The tool calls that an answer requested, or whose results the message has. */
  callIds: string[]
  /** Values that are too large for the row. */
  blobs: BlobPlace[]
}

/** A message that is no longer part of the transcript. */
export interface ArchivedMessage extends ListedMessage {
  /** The event that removed it from the transcript; null if it was in the transcript when the session was pruned. */
  archivedSeq: number | null
  /** When it was archived; null if that was before pawl recorded the time. */
  archivedAt: Date | null
  /** Why it was removed from the transcript. */
  why: 'rolled_back' | 'restarted' | 'recovered' | 'abandoned' | 'unscheduled' | 'started_over' | 'forked' | 'pruned'
}

/** A checkpoint in a list, without its state. */
export interface ListedCheckpoint {
  /** The session's id. */
  sessionId: string
  /** The checkpoint's number, from 1. */
  version: number
  /** The agent's name. */
  agent: string
  /** Number of the run within the session, from 1. */
  run: number | null
  /** Number of the turn within the run, from 1. */
  turn: number | null
  /** The event that records it. */
  seq: number
  /** The last event that its state includes. */
  upToSeq: number
  /** Id of the transcript's last message at that point; null if there was none. */
  lastMessageId: string | null
  /** Why it was made: a checkpoint may have several reasons, because those of one turn are made together. */
  reasons: string[]
  /** Who requested it; null if only the checkpoint policy did. */
  by: string | null
  /** Version of the state's encoding. */
  stateVersion: number
  /** When it was created. */
  createdAt: Date
  /** The plan at that point; null if there was none. */
  plan: PlanProgress | null
  /** What the session had spent until then, as its budget counts; null if unknown. */
  spent: { tokens: number; usd: number } | null
  /** The event that took the session back to before the checkpoint; null if none did. A fork may begin at either kind of checkpoint. */
  archivedSeq: number | null
}

/** A tool call in a list. */
export interface ListedToolCall extends ToolCallRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** When the newest attempt began. */
  startedAt: Date | null
  /** The last progress that an attempt reported. */
  progress: Json
  /** When its wait for a person or a client expires. */
  waitingUntil: Date | null
  /** The request for approval and the decision. */
  approval: Json
  /** SHA-256 of a result that is too large for the row. */
  resultBlob: string | null
  /** Who resolved an unknown outcome (`verify` or a person's name), or answered a call of a client tool. */
  resolvedBy: string | null
  /** That person's note about it. */
  note: string | null
  /** Names of the milestones that it reached. */
  milestones: string[]
}

/** What a call waits for: an approval, a client's answer, the answer to a question, or the resolution of an unknown outcome. */
export type PendingKind = 'approval' | 'client' | 'question' | 'unknown'

/** A call that waits for a person or a client. */
export type ListedPendingCall = {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The session's tags. */
  tags: string[]
  /** The agents above the session, from the root of its tree; empty if no other session called it. */
  path: string[]
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Number of the run within the session, from 1. */
  run: number
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The tool's name. */
  tool: string
  /** The tool's effect. */
  effect: string
  /** The arguments that it would be executed with. */
  input: Json
  /** The model's own arguments, if a hook or a person changed them; otherwise null. */
  modelInput: Json
  /** The idempotency key, by which other systems may know the call; null if it has none. */
  key: string | null
  /** The tool's reason for the approval, its question, or the message of an unknown outcome. */
  reason: string | null
  /** Number of attempts. */
  attempt: number
  /** When the wait began. */
  waitingSince: Date
  /** When the wait expires; null if it has no limit. */
  expiresAt: Date | null
} & (
  | {
      kind: 'approval'
      /** Digest of tool and arguments, for `approve` and `deny`. */
      digest: string
      /** Who may decide: a person with this role; null if anyone may. */
      approvers: Approvers | null
      /**
       * The same for all calls that one decision can settle: those of one agent's tool, with the same approvers, in sessions of one tenant
       * with the same context (or in one session that has none). Approve one of them with `remember: { for: 'context', matching: 'tool' }`
       * (`for: 'session'` without a context).
       */
      group: string
      /** What happens to the request at its expiry. */
      onExpiry: 'deny' | 'error'
    }
  | {
      kind: 'client'
      /** Digest of tool and arguments. */
      digest: string | null
      /** Always null: only a request for approval can expire. */
      onExpiry: null
    }
  | {
      kind: 'question'
      /** Digest of the question, for `answer`. */
      digest: string
      /** What the tool asks the user. */
      question: CallQuestion
      /** Always null: only a request for approval can expire. */
      onExpiry: null
    }
  | {
      kind: 'unknown'
      /** Digest of tool and arguments. */
      digest: string | null
      /** Always null: only a request for approval can expire. */
      onExpiry: null
    }
)

/** One run of a session, as far as it is stored. */
export interface ListedRun {
  /** Number of the run within the session, from 1. */
  run: number
  /** When it began. */
  startedAt: Date
  /** How and when it ended; null if it has not ended, has failed, or was abandoned by a recovery or a rollback. */
  end: { how: 'completed' | 'interrupted'; at: Date } | null
  /** Its tool calls in the order in which the model requested them. */
  calls: ListedToolCall[]
  /** Its failed attempts and failures, in the order in which they happened. */
  failures: ListedError[]
  /** The model's answers. */
  answers: { turn: number; model: string; at: Date }[]
  /** Turns that were removed from the transcript. */
  archivedTurns: number[]
}

/** A failed attempt, or the failure of a whole run, in a list. */
export interface ListedError extends ErrorRow {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** Milliseconds until the next attempt, if one followed. */
  nextDelayMs: number | null
}

/** A session in `error`. */
export interface SessionInError {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** Why it is in `error`. */
  error: SessionError
}

/** An event of any session. */
export interface FeedItem {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The event. */
  event: SessionEvent
}
