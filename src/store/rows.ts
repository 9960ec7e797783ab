// The rows that the side store's readers return.
import type { Message, Usage } from '../session/content.ts'
import type { RecoveryStrategy, SessionEvent, SessionStatus, ToolCallStatus, Watermark } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { Paused, SessionError } from '../session/state.ts'

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
  /** Whom the session is for. */
  context: Json
  /** Tags that lists can filter by. */
  tags: string[]
  /** Why it is in `error`. */
  error: SessionError | null
  /** When it was paused, by whom and why; null: it is not paused. */
  paused: Paused | null
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
  /** Which side the message comes from. */
  kind: 'user' | 'assistant' | 'tool_results'
  /** Text, or content blocks. */
  content: Message['content']
  /** Metadata that the caller sent with it. */
  metadata: JsonObject | null
  /** Who sent it, as given by the sender. */
  by: string | null
  /** When it was accepted. */
  at: Date
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
  /** The tool's effect. */
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
  /** The worker process (`host:pid`); null: not known. */
  worker: string | null
  /** When the model asked for it. */
  issuedAt: Date
  /** When it ended. */
  completedAt: Date | null
}

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
  /** The last event that the summary replaces; 0: nothing is replaced, only results are shortened. */
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
  /** Bytes to which results of earlier calls were shortened; null: they were not shortened. */
  resultBytes: number | null
  /** The model that wrote the summary; null: pawl made no model call for it. */
  model: string | null
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
  /** The tool call that failed; null: it was not a tool call. */
  callId: string | null
  /** Number of the attempt, from 1; null: the whole run failed. */
  attempt: number | null
  /** Class name of what was thrown, or `WorkerDied`, `HeartbeatTimeout`, `Timeout`. */
  class: string
  /** The error's own code. */
  code: string | null
  /** What went wrong. */
  message: string
  /** Where it was thrown: one frame a line, the user's own code first, then packages, then the causes; null: no exception, or no frames. */
  stack: string | null
  /** Whether another attempt was allowed. */
  retryable: boolean
  /** The worker process (`host:pid`); null: not known. */
  worker: string | null
  /** The model that failed; null: it was not a model. */
  model: string | null
  /** `stream`: the model had begun to answer. Null: it had not, or it was not a model. */
  phase: 'stream' | null
  /** When it happened. */
  at: Date
  /** When the session left the error; null: it is still in it, or no whole run failed. */
  endedAt: Date | null
  /** How it left the error: its cause ended or pawl recovered the run (`itself`), or a person acted. Null as `endedAt`. */
  endedBy: 'itself' | 'person' | null
  /**
   * What followed the failure of a run. `failed`: another error. `interrupted`, `rolled_back`, `abandoned`, `closed`: the run was given up.
   * Null: nothing yet, or no whole run failed.
   */
  outcome: 'completed' | 'failed' | 'interrupted' | 'rolled_back' | 'abandoned' | 'closed' | null
}

/** How far a session has come with its plan. */
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

/** A session in a list. */
export interface ListedSession extends SessionRow {
  /** Its plan; null: it has none. */
  plan: PlanProgress | null
  /** The session that it was forked from. */
  parent: string | null
  /** The last event that it inherited from `parent`. */
  forkedSeq: number | null
  /** The model of the newest turn. */
  model: string | null
  /** Provider of that model. */
  provider: string | null
  /** Cost in US dollars; null without a known price. */
  usd: number | null
  /** Version of the newest checkpoint; 0: none. */
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

/** Reference to a content block whose value is too large for the row. */
export interface BlobPlace {
  /** Index of the block; null: the whole content. */
  block: number | null
  /** SHA-256 of the JSON text, in hex, as `session.blob` accepts it. */
  sha256: string
  /** Size of the JSON text, in UTF-8. */
  bytes: number
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
  /** The event that removed it from the transcript; null: it was in the transcript when the session was pruned. */
  archivedSeq: number | null
  /** When it was archived; null: before pawl recorded the time. */
  archivedAt: Date | null
  /** Why it was removed from the transcript. */
  why: 'rolled_back' | 'restarted' | 'recovered' | 'abandoned' | 'begun_afresh' | 'forked' | 'pruned'
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
  /** Id of the transcript's last message at that point; null: none. */
  lastMessageId: string | null
  /** Why it was made: a checkpoint may have several reasons, because those of one turn are made together. */
  reasons: string[]
  /** Who requested it; null: the checkpoint policy alone. */
  by: string | null
  /** Version of the state's encoding. */
  stateVersion: number
  /** When it was created. */
  createdAt: Date
  /** The plan at that point; null: there was none. */
  plan: PlanProgress | null
  /** What the session had spent until then, as its budget counts; null: not known. */
  spent: { tokens: number; usd: number } | null
  /** The event that took the session back to before the checkpoint; null: none did. A fork may begin at either kind. */
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

/** What a call waits for: an approval, a client's answer, or the resolution of an unknown outcome. */
export type PendingKind = 'approval' | 'client' | 'unknown'

/** A call that waits for a person or a client. */
export type ListedPending = {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The session's tags. */
  tags: string[]
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
  /** The idempotency key, by which other systems may know the call; null: it has none. */
  key: string | null
  /** The tool's reason for the approval, or the message of an unknown outcome. */
  reason: string | null
  /** Number of attempts. */
  attempt: number
  /** When the wait began. */
  waitingSince: Date
  /** When the wait expires; null: no limit. */
  expiresAt: Date | null
} & (
  | {
      kind: 'approval'
      /** Digest of tool and arguments, for `approve` and `deny`. */
      digest: string
      /** What happens to the request at its expiry. */
      onExpiry: 'deny' | 'error'
    }
  | {
      kind: 'client'
      /** Digest of tool and arguments. */
      digest: string | null
      /** Null: only requests for approval have it. */
      onExpiry: null
    }
  | {
      kind: 'unknown'
      /** Digest of tool and arguments. */
      digest: string | null
      /** Null: only requests for approval have it. */
      onExpiry: null
    }
)

/** One run of a session, as far as it is stored. */
export interface ListedRun {
  /** Number of the run within the session, from 1. */
  run: number
  /** When it began. */
  startedAt: Date
  /** How and when it ended; null: it has not ended, it failed, or a recovery or rollback abandoned it. */
  end: { how: 'completed' | 'interrupted'; at: Date } | null
  /** Its tool calls in the order in which the model asked for them. */
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

/** How usage can be grouped. `turn`: the turns of one session. */
export type UsageBy = 'agent' | 'day' | 'model' | 'session' | 'turn'

/** Usage of one agent, day (UTC, `2026-11-21`), model, session or turn (`1.2`: the second turn of run 1). */
export interface UsageSum {
  /** The agent, day, model, session or turn. */
  key: string
  /** Model calls that completed. */
  calls: number
  /** Tokens used. */
  usage: Usage
  /** Cost, in US dollars, of the calls whose price is known. */
  usd: number
  /** Calls whose price is not known; `usd` does not include them. */
  unpriced: number
}

/**
 * What an open session needs. `recovery`, `resolution`, `approval`, `unpausing`: a person must recover it, resolve an unknown outcome,
 * decide on an approval, or unpause it. `worker`: its next step waits for a worker, or for Temporal; only `deploymentStatus` sees this.
 * `automatic`: the cause of its error must end, or its next attempt succeed. `look`: a person
 * should check it, because it is running but has stored nothing for minutes. `answer`: a client must answer. `plan`: it is idle, but
 * steps of its plan are not done.
 */
export type SessionNeed =
  | 'recovery'
  | 'resolution'
  | 'approval'
  | 'unpausing'
  | 'resuming'
  | 'worker'
  | 'automatic'
  | 'look'
  | 'answer'
  | 'plan'
  | 'nothing'

/** An open session in the overview. */
export interface OverviewSession extends Pick<SessionRow, 'sessionId' | 'agent' | 'status' | 'run' | 'error' | 'paused'> {
  /** What it needs most. */
  needs: SessionNeed
  /** Since when: the time of the oldest request, or of the error or pause; for a running session, of its last event. */
  since: Date
  /** Tools of the calls that wait for a person or a client. */
  tools: string[]
  /** When the first of these waits expires; null: none does. */
  expiresAt: Date | null
  /** Its plan; null: it has none. */
  plan: PlanProgress | null
}

/** The open sessions by what they need. */
export interface StatusOverview {
  /** Sessions by status; closed ones are not counted. */
  sessions: Record<Exclude<SessionStatus, 'closed'>, number>
  /** Sessions that are in an error, waiting, running, paused, or idle with an unfinished plan, by what they need most. */
  needs: Record<SessionNeed, number>
  /** Those sessions, most urgent need first, then approvals by expiry, then longest wait first; at most as many as requested. */
  items: OverviewSession[]
}

/** Statistics of the failures in a time span. */
export interface FailureReport {
  /** The beginning of the time span. */
  since: Date
  /** How often runs failed, most failures first. */
  agents: AgentFailures[]
  /** What failed, by agent, tool and code: most that did not heal first, then most failures. */
  causes: FailureCause[]
  /** Sessions that failed in the same way more than once, most failures first. */
  repeated: RepeatedFailure[]
  /** What recoveries led to, most recoveries first. */
  recoveries: RecoveryOutcomes[]
  /** How long sessions were in errors, longest total first. */
  timeInError: TimeInError[]
}

/** How often an agent's runs failed. */
export interface AgentFailures {
  /** The agent's name. */
  agent: string
  /** Runs that a model answered, or that failed, within the time span. */
  runs: number
  /** Runs that failed, however they continued: the sum of the next four. */
  failed: number
  /** Those that pawl or the end of the cause healed, without a person. */
  healedByItself: number
  /** Those that a person healed. */
  healedByPerson: number
  /** Those that were given up: interrupted, abandoned, rolled back, or closed. */
  givenUp: number
  /** Those that are still in error. */
  open: number
  /** Runs that only waited in errors that end by themselves, such as `agent_not_served`. */
  heldUp: number
  /** Failed attempts of model calls and tool calls. */
  failedAttempts: number
}

/** What failed in one way: runs, model calls, or calls of one tool, of one agent, with one code. */
export interface FailureCause {
  /** The agent's name. */
  agent: string
  /** What failed. `model`: attempts of model calls, by turn. `tool`: attempts of tool calls, and calls that failed without one. */
  what: 'run' | 'model' | 'tool'
  /** The tool's name; null: it was not a tool. */
  tool: string | null
  /** The code, or the name of the error's class. */
  code: string
  /** Rows of `errors` behind them: failed attempts, or errors of runs. A call that failed without an attempt has none. */
  errors: number
  /** How many runs, turns or calls failed in this way, each once: the sum of the next four. */
  failures: number
  /** Those that succeeded in another attempt, were confirmed by `verify`, or whose run pawl recovered. */
  healedByItself: number
  /** Those that a person healed. */
  healedByPerson: number
  /** Those that failed for good: the model was told of a failed call, or the run was given up. */
  givenUp: number
  /** Those that are not decided: in error, being retried, or of unknown outcome. */
  open: number
  /** When the newest one happened. */
  newest: Date
}

/** A session that failed in the same way more than once. */
export interface RepeatedFailure {
  /** The session's id. */
  sessionId: string
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often the session entered this error. */
  times: number
  /** How many of its runs did. */
  runs: number
  /** When it first did within the time span. */
  first: Date
  /** When it last did. */
  newest: Date
}

/** What an agent's recoveries with one strategy led to. */
export interface RecoveryOutcomes {
  /** The agent's name. */
  agent: string
  /** The strategy; null: requests that named none and were refused. */
  strategy: RecoveryStrategy | null
  /** Whether pawl made them under the agent's policy; false: a person made them. */
  automatic: boolean
  /** How many there were. */
  recoveries: number
  /** How many led to a completed run. An abandoned run does not complete. */
  completed: number
  /** How many led to a run that failed again. */
  failed: number
  /** How many led to a run that has not ended yet. */
  unfinished: number
  /** Requests that were refused; they are not in `recoveries`. */
  refused: number
}

/** How long an agent's sessions were in one kind of error. */
export interface TimeInError {
  /** The agent's name. */
  agent: string
  /** The error's code. */
  code: string
  /** How often sessions entered it. */
  times: number
  /** How many of them are still in it. */
  open: number
  /** Milliseconds, over all of them. */
  totalMs: number
  /** Median duration, in milliseconds. */
  medianMs: number
  /** Longest duration, in milliseconds. */
  longestMs: number
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

/** A position in a list's order: where the next page begins. */
export type Key = (string | number | null)[]

/** Rows of a list, and where the next page begins; `next` is absent on the last page. */
export interface Rows<T> {
  items: T[]
  next?: Key
}

/** Paging. */
export interface Paging {
  limit: number
  after?: Key
}

/** A time span: from `since`, before `until`. */
export interface TimeSpan {
  since?: Date
  until?: Date
}

/** Selects sessions. */
export interface SessionFilter extends TimeSpan {
  status?: SessionStatus[]
  paused?: boolean
  agent?: string
  /** Sessions that have all of these. */
  tags?: string[]
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects sessions in error; the time span is for when they entered it. */
export interface InErrorFilter extends TimeSpan {
  session?: string
  /** Sessions whose error has one of these codes. */
  codes?: string[]
  agent?: string
  /** Sessions that have all of these. */
  tags?: string[]
}

/** Selects errors. */
export interface ErrorFilter extends TimeSpan {
  session?: string
  run?: number
  context?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects tool calls. */
export interface ToolCallFilter extends TimeSpan {
  session?: string
  status?: ToolCallStatus[]
  tool?: string
  key?: string
  effectId?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects tool calls of one session. */
export interface SessionToolCallFilter {
  status?: ToolCallStatus[]
  tool?: string
  run?: number
}

/** Selects open sessions. */
export interface OverviewFilter {
  limit: number
  agent?: string
  /** Sessions that cannot take their next step, according to Temporal: those of `any`, and those of `running` if they are running. */
  heldUp?: { running: 'all' | string[]; any: string[] }
  /** Sessions whose workflow has ended, although they are not idle, according to Temporal. */
  ended?: string[]
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects sessions that Temporal should have open. */
export interface UnfinishedFilter extends Pick<OverviewFilter, 'limit' | 'agent' | 'idPrefix'> {
  /** Those that are known to be open. */
  besides?: readonly string[]
}

/** Selects failures. */
export interface FailureFilter extends TimeSpan {
  since: Date
  agent?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects pending calls. */
export interface PendingFilter {
  kind?: PendingKind[]
  agent?: string
  /** Of sessions that have all of these. */
  tags?: string[]
  session?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
}

/** Selects usage, and groups it. */
export interface UsageFilter extends TimeSpan {
  by: UsageBy
  session?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
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
  | { what: 'incident'; code: string; outcome: 'healed_by_itself' | 'healed_by_person' | 'given_up' }

/** Where a message's events begin. */
export interface MessagePlace {
  /** The `seq` before its `message_received` or `message_rejected`, or, while neither is stored, the session's head; 0 if it is unknown. */
  after: number
  /** The `seq` before the `message_received` of an archived message with that id, whose events are still there. */
  archived?: number
  /** The events are deleted. Unless `isPruned`, nothing has happened in the session since, as far as it is stored. */
  gone?: 'pruned' | 'erased'
  /** The archive has the message, and its events are deleted: it was pruned, whatever has happened since. */
  isPruned?: true
}
