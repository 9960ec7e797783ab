// The types of the client's interface: options, handles and results.
import type { Agent, ContextOf } from '../agent/agent.ts'
import type { Slice } from '../agent/slice.ts'
import type { AnswerOf, Tool, ToolNeeds } from '../agent/tool.ts'
import type { BudgetScope } from '../session/spending/spend.ts'
import type { AssistantBlock, StopReason, Usage, UserBlock } from '../session/content.ts'
import type { Duration } from '../session/duration.ts'
import type { RecoveryStrategy } from '../session/agent-facts.ts'
import type { SessionEvent, Target } from '../session/events.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { MemoryBlock } from '../session/built-in-tools/memory.ts'
import type { MemoryVersion, PlanVersion } from '../session/built-in-tools/kept.ts'
import type { Plan } from '../session/built-in-tools/plan.ts'
import type { Approvers } from '../session/call-facts.ts'
import type { CallQuestion } from '../session/question-facts.ts'
import type { RememberRequest, RuleMatching } from '../session/standing/facts.ts'
import type { ApproveAnswer, RollbackReport, PauseAnswer, ResolveRequest } from '../session/protocol/protocol.ts'
import type { SessionView } from '../session/watching/view.ts'
import type { WatchItem } from '../session/watching/watching.ts'
import type { MessageRow } from '../store/rows.ts'
import type { SessionQueries } from './queries/queries.ts'
import type { SessionBudget } from './session/budget.ts'
import type { RunReport } from './session/run-report.ts'
import type { SessionReport } from './session/status.ts'

/**
 * Temporal's priority and fairness, for the workflow and its activities. A server that does not support them ignores them. They are not
 * encoded by codecs.
 */
export interface Priority {
  /** 1 to 5, unless the server is configured otherwise; smaller numbers first. Default 3. */
  priorityKey?: number
  /** Keys share the workers by their weights, such as a tenant's id: at most 64 bytes. Default: none. */
  fairnessKey?: string
  /** The key's share: 0.001 to 1,000. Default 1. */
  fairnessWeight?: number
}

/** Options for opening a session with any agent. */
export interface OpeningOptions {
  /** Tags that lists can filter by: at most 16,000 bytes of JSON. Default: none. */
  tags?: string[]
  /** Task queue of the workers that serve the session. Default: the client's. */
  taskQueue?: string
  /** The order in which Temporal gives the session's steps to busy workers. Default: Temporal's. */
  priority?: Priority
  /** How long the session stays open without a message, at most 24 days. Default `'24h'`. */
  idleTimeout?: Duration
  /**
   * How long a call may wait for a worker that serves it, at most 24 days. After that, the session enters `error: agent_not_served`.
   * Default `'2m'`.
   */
  notServedAfter?: Duration
  /**
   * How long after its last heartbeat a model call or a tool call counts as lost, from 10 seconds to 5 minutes. A worker's own processes
   * report a death at once, so this matters only if the machine is lost or all of a worker's processes are killed. Heartbeats are three to a
   * timeout: Temporal Cloud bills each. Default `'10s'`.
   */
  heartbeatTimeout?: Duration
}

/** Which agent a session talks to, and its context: required together if the agent's `context` schema requires one. */
export type AgentAndContext<A extends Agent> =
  null extends ContextOf<A>
    ? {
        /** The agent, or its name. Required to start or resume a session. */
        agent?: A['name'] | NoInfer<A>
        /** Who the session is for, at most 100,000 bytes of JSON. Used when the session starts. Default `null`. */
        context?: ContextOf<A>
      }
    :
        | {
            /** The agent, or its name. Required to start or resume a session. */
            agent: A['name'] | NoInfer<A>
            /** Who the session is for, at most 100,000 bytes of JSON. Used when the session starts. */
            context: ContextOf<A>
          }
        | { agent?: undefined; context?: undefined }

/** Options of `pawl.session`; used when the session starts. */
export type SessionOptions<A extends Agent = Agent<Json>> = OpeningOptions & AgentAndContext<A>

/** Options of `session.send`. */
export interface SendOptions {
  /**
   * Identifies the message: pawl accepts each id once. Another message with the id of a stored one is refused with `request_id_reused`. 1 to
   * 200 characters. Default: a new UUID.
   */
  messageId?: string
  /** Passed to the run's tools as `ctx.metadata`: at most 16,000 bytes of JSON. Default `{}`. */
  metadata?: JsonObject
  /** Who sends the message; recorded with it: at most 1,000 bytes of JSON (`invalid_request`). Default: none. */
  by?: string
  /**
   * The span to link the run with, in the format of W3C Trace Context's `traceparent` header: a web server's handler finds it in its
   * request. Default: OpenTelemetry's active span, if your process has set OpenTelemetry up.
   */
  traceparent?: string
  /**
   * Time limit for the answer, counted from when the session accepts the message; at most 24 days. After that, the run that takes the
   * message fails with `deadline_exceeded`, even in the middle of a step. Default: none.
   */
  deadline?: Duration
  /**
   * When the session delivers the message: a `Date`, milliseconds since 1970, or ISO text with its offset (`'2026-12-24T18:00:00+01:00'`); at
   * most ten years ahead. A time that has passed is now. Excludes `delay`. The deadline counts from the delivery. If content
   * and metadata have more than 4,000 bytes of JSON together, the content goes to the side store and needs it; metadata alone then has at
   * most 2,000. Default: at once.
   */
  at?: Date | number | string
  /** How long from now the session delivers the message, at most ten years. Excludes `at`. Default: not at all. */
  delay?: Duration
  /**
   * Promises that the session has never existed. Without it, a worker looks up the past of a session whose workflow is not running, and
   * waits while Postgres is unreachable. Default true for an id that pawl generated. A session that did exist would start over without its
   * past.
   */
  isNew?: boolean
  /**
   * Interrupts the run in progress, in the same request; the message opens the next run, after messages that are already waiting. If no run
   * is in progress, or the id was accepted before, nothing is interrupted. Default false: the run in progress sees the message in its next
   * turn.
   */
  interrupt?: boolean
}

/** A message that the session keeps until it is due. */
export interface ScheduledMessage {
  /** The message's id. */
  messageId: string
  /** When it is delivered. */
  dueAt: Date
  /** Its content; of content in the side store, the beginning. */
  content: string | UserBlock[]
  /** Passed to the run's tools as `ctx.metadata`; null: none. */
  metadata: JsonObject | null
  /** Who sent it; null: not said. */
  by: string | null
  /** When the session accepted it. */
  scheduledAt: Date
}

/** The result of a run that completed. `O`: the type of its output. */
export interface RunResult<O = unknown> {
  /** Number of the run within the session, from 1. */
  run: number
  /** The text of the model's last message. */
  text: string
  /** The model's last message. */
  message: { role: 'assistant'; content: AssistantBlock[] }
  /**
   * The run's output: the model's arguments as parsed by the agent's `output` schema. Absent for an agent without `output`, and for a run
   * completed by a worker whose build had no `output`.
   */
  output: O
  /** Why the model stopped. After a `refusal` or a cut-off answer, the text is incomplete or empty. */
  stopReason: StopReason
  /** The model that answered: after a failure, one of the agent's `fallback` models. */
  model: string
  /** Tokens used by the run. */
  usage: Usage
}

/** The outcome of a run that has settled. `O`: the type of its output. */
export type SettledRun<O = unknown> =
  | ({ status: 'completed' } & RunResult<O>)
  | { status: 'interrupted'; run: number; reason?: string }
  | { status: 'failed'; run?: number; code: string; reason: string; strategy: RecoveryStrategy | 'automatic' }
  | { status: 'rejected'; code: string; reason: string }
  /** The run continues once these calls receive the decision, answer or resolution that they wait for. */
  | { status: 'waiting'; run: number; pending: WaitingCall[] }

/**
 * A call that waits for a person or a client: for approval, for a client's answer, for the answer to a question of its tool, or for a report
 * of its outcome (`unknown`).
 */
export type WaitingCall = {
  /** The call's id: `t_<run>_<turn>_<index>`. */
  callId: string
  /** Number of the turn within the run, from 1. */
  turn: number
  /** The tool's name. */
  tool: string
  /** The model's arguments. */
  input: Json
  /** When the wait expires, in milliseconds since 1970. */
  expiresAt?: number
} & (
  | {
      kind: 'approval'
      /** Digest of the arguments, which `approve` and `deny` require. */
      digest: string
      /** Why approval is needed, according to the tool. */
      reason?: string
      /** Who may decide: a person with this role. Absent: anyone. */
      approvers?: Approvers
    }
  | { kind: 'client'; digest?: undefined; reason?: undefined }
  | {
      kind: 'question'
      /** Digest of the question, for `answer`. */
      digest: string
      /** What the tool asks the user. */
      question: CallQuestion
      reason?: undefined
    }
  | { kind: 'unknown'; digest?: undefined; reason?: undefined }
)

/** How long to wait for a run. */
export interface WaitOptions {
  /** At most 24 days; after that the wait rejects with `ResultTimeoutError`, and the run continues. Default: as long as the run takes. */
  timeout?: Duration
  /** Ends the wait, which then rejects with the signal's reason. Default: none. */
  signal?: AbortSignal
}

/** One run, identified by a message that belongs to it. `O`: the type of its output. */
export interface RunHandle<O = unknown> {
  /** The session's id. */
  readonly sessionId: string
  /** The message that the run belongs to. */
  readonly messageId: string
  /**
   * Returns the run's answer. Keeps waiting through `waiting` and through errors that pawl recovers from automatically.
   * @throws RunInterruptedError `run_interrupted`; RunFailedError and MessageRejectedError, with the code that the session recorded;
   * ResultTimeoutError `result_timeout`; InvalidOptionError `invalid_option`.
   */
  result(options?: WaitOptions): Promise<RunResult<O>>
  /**
   * Like `result`, but resolves however the run ended. It also resolves when the run waits for a person or a client, with the
   * pending calls. For a message that the waiting run has not taken yet, it resolves later.
   */
  settled(options?: WaitOptions): Promise<SettledRun<O>>
  /** The session's events from this message on, until its run has ended. */
  events(options?: { signal?: AbortSignal }): AsyncIterable<SessionEvent>
  /** The same events, and between them the pieces of the model's answer: see `session.watch`. */
  stream(options?: { signal?: AbortSignal }): AsyncIterable<Exclude<WatchItem, { type: 'status' }>>
}

/** Identifies a request, so that it can be sent again if its answer was lost. */
export interface Repeatable {
  /**
   * The request's id, from 1 to 200 characters: the session carries out each id of a method once, and a repeated request gets the same
   * answer. Another request with the id is refused with `request_id_reused`, except by `interrupt` and `close`, which ignore it. The session
   * remembers the newest 50, also once it was closed, for as long as Temporal keeps its last history. Default: a new UUID.
   */
  requestId?: string
}

/** Who makes a request, and why; recorded with the request. */
export interface By extends Repeatable {
  /** Who makes the request: at most 1,000 bytes. */
  by?: string
  /** Why: at most 4,000 bytes. */
  reason?: string
}

/** Which limits to raise, and to what. */
export interface RaiseOptions extends By {
  /**
   * The complete new limit in US dollars, above 0 and at most 1,000,000, and not lower than the present one. One of the two is required.
   */
  maxUsd?: number
  /** The complete new limit in tokens, an integer from 1, and not lower than the present one. */
  maxTotalTokens?: number
  /** Whose limits. Default `run`. */
  scope?: BudgetScope
}

/** How to take a session out of `error`. */
export interface RecoverOptions extends By {
  /**
   * Default: the strategy that the session's error names (`state.error.strategy`); `state.error.options` lists the possible ones.
   *
   * - `continue_run`: the run retries the step that failed; nothing is undone.
   * - `restart_run`: the run answers its messages from the beginning; its earlier answers and calls are archived.
   * - `restart_from_last_effect`: the run continues after the turn of its newest completed effect; later turns are archived.
   * - `selective`: of the failed turn's calls, some are kept, skipped or repeated: see `keep`. The default if calls are named.
   * - `abandon`: the run ends; its answers and calls are archived, and the users' messages stay.
   */
  strategy?: Exclude<RecoveryStrategy, 'manual'>
  /**
   * Ids of calls of the failed turn whose results are kept. Calls that are not named also keep their results, or continue without one, but
   * all calls whose outcome is unknown must be named. Each id may occur once in `keep`, `skip` and `redo` together. Default: none.
   */
  keep?: readonly string[]
  /**
   * Ids of calls to skip: they are not executed, or not executed again, and the model is told that they were skipped. A completed call
   * cannot be skipped. Default: none.
   */
  skip?: readonly string[]
  /** Ids of calls to repeat, each as a new generation: `t_1_2_0#2`. Default: none. */
  redo?: readonly string[]
  /** Lets completed effects happen again if their calls are in `redo`. Requires `by`. Default false. */
  force?: boolean
  /**
   * The newest event that you have seen. If a later event changes what the request would do, it is refused with `session_moved`. Default:
   * not checked.
   */
  seenSeq?: number
}

/**
 * A point in the session's past: a checkpoint, by its version, or the moment just before a turn took a message or a run began.
 * `keys: 'forgotten'`: you have undone the effects after that point outside of pawl, so they may happen again. Default: they count.
 */
export type RollbackOptions = Target & By & { keys?: 'kept' | 'forgotten'; seenSeq?: number }

/** Options of a fork. Without a target, it begins where the session is now. */
export type ForkOptions = Repeatable &
  Partial<{ checkpoint: number; message: string; run: number }> & {
    /** The new session's id: 1 to 200 of `[A-Za-z0-9._:/@-]`. Default: a new UUID. */
    id?: string
    /**
     * Whether effects that the session has completed under keys of the whole session (`idempotency: 'session'`), and their results,
     * count as completed in the fork too. Default `carried`.
     */
    keys?: 'carried' | 'forgotten'
    /** Whether to interrupt a run in progress first. Default true. */
    interrupt?: boolean
    /** As for a rollback. */
    seenSeq?: number
    /** The new session's tags: at most 16,000 bytes of JSON. Default: those of the original. */
    tags?: string[]
    /** Who requests it: at most 1,000 bytes. */
    by?: string
  }

/** A decision about a call: which arguments it is about, who made it, and a note. */
export interface Decision extends Repeatable {
  /** Digest of the arguments, from `approval_requested` or the list of pending calls. */
  digest: string
  /** Who decided: at most 1,000 bytes. */
  by?: string
  /**
   * The person's roles, for calls that only people with a role may decide. pawl believes your code: pass what you have verified. Default:
   * none.
   */
  roles?: readonly string[]
  /** A note about the decision: at most 4,000 bytes. */
  note?: string
}

/** Which later calls of a tool an approval approves, too: a standing approval. */
export interface Remember {
  /**
   * For which sessions: this one (`session`); those of the same agent and tenant with the same `context`; or those whose contexts have the
   * same values in the members that `{ context: [names] }` lists.
   */
  for: RememberRequest['for']
  /**
   * Which calls of the tool: all (`tool`), those with the same arguments (`input`), or those whose arguments are within bounds, by JSON
   * pointer: `{ '/cents': { max: 10_000 } }`. Bounds are `max`, `min`, `equals` and `oneOf`. A value that is missing, or that is not a number
   * where a number is due, does not match.
   */
  matching: RuleMatching
  /** Until when: a date, or milliseconds since 1970. Default: until it is revoked. */
  until?: Date | number
  /** How many calls: an integer from 1. Default: any number. */
  uses?: number
}

/** The value of a slice at a moment in the session's past. */
export interface SliceMoment<V = unknown> {
  /** The value. */
  value: V
  /** The checkpoint's version; null for the newest event. */
  checkpoint: number | null
  /** The `seq` of the last event folded into it. */
  seq: number
  /** When that event happened. */
  createdAt: Date
  /** The session's tags then. */
  tags: string[]
}

/** What a watcher of a tree sees. */
export type TreeItem = WatchItem & {
  /** The session. */
  sessionId: string
  /** The agent call that it answers; absent for the session at the top. */
  caller?: { sessionId: string; callId: string }
}

/** Where to read a session's past. */
export interface AtCheckpoint {
  /** The version of a checkpoint, also an archived one. Default: now. */
  at?: number
}

/**
 * One session. Every method checks its arguments first: an unknown or missing option, or one of a wrong type, is an InvalidOptionError
 * `invalid_option`, and nothing was sent. Methods that change the session, and `resume`, also reject with ConnectError `no_temporal` if the
 * server does not answer. Those that wait for the session's answer (all but `send`, `interrupt` and `close`) reject with
 * RequestRefusedError `archive_unavailable`, `execution_unreadable`, `session_not_loaded` while the session cannot open; it opens
 * automatically.
 */
export interface SessionHandle<O = unknown> extends SessionQueries {
  /** The session's id. */
  readonly id: string
  /**
   * Sends a user message: starts, resumes or continues the session. Durable when it resolves, even with no worker running.
   * If you chose the session's id, the session may have a past, which a worker reads from Postgres before it opens the session. The first
   * message of a session that cannot have a past needs no Postgres: `send(text, { isNew: true })`.
   * Content of more than 1,000,000 bytes of JSON, up to 20,000,000, goes to the side store first and needs it.
   * @throws InvalidMessageError (`empty_message`, `message_too_large`, `invalid_context`, …), InvalidOptionError `invalid_option`,
   * RequestRefusedError `invalid_request`, and StoreError `store_unavailable` for large content, before anything is recorded; ConnectError
   * `no_temporal` if the server does not answer within 30 s.
   */
  send(content: string | UserBlock[], options?: SendOptions): Promise<RunHandle<O>>
  /**
   * The messages that the session delivers later, the earliest first: from the workflow, else from the store.
   * @throws SessionNotFoundError `session_not_found`; RequestRefusedError `events_gone` for a pruned session; SessionUnavailableError
   * `session_unavailable`.
   */
  scheduled(): Promise<ScheduledMessage[]>
  /**
   * Takes back a message that is not due yet: it is archived, and `run(messageId).result()` rejects with `unscheduled`. The id stays
   * accepted, so a message with it is not scheduled again.
   * @throws RequestRefusedError `not_scheduled`, `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError
   * `session_unavailable`.
   */
  unschedule(messageId: string, options?: By): Promise<void>
  /** The handle of the run of a message that was sent before. @throws InvalidOptionError `invalid_option`. */
  run(messageId: string): RunHandle<O>
  /**
   * The session's state, from the workflow, else from the store: its run in progress or the one that failed, its error, and its figures.
   * @throws SessionNotFoundError `session_not_found`; RequestRefusedError `events_gone` for a pruned session; SessionUnavailableError
   * `session_unavailable`, which says what it waits for.
   */
  state(): Promise<SessionView>
  /**
   * The session's status and what it waits for: from the workflow, else from the store; the report says which. Unlike `state()`, it also
   * says what holds the workflow up, and how far its events are stored.
   * @throws SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable` if neither can be read.
   */
  status(): Promise<SessionReport>
  /**
   * One run, by default the newest: its calls with their attempts and effects and, if it failed, what each strategy would keep and redo.
   * @throws RequestRefusedError `run_not_found`, `events_gone` for a pruned session; SessionNotFoundError `session_not_found`;
   * SessionUnavailableError `session_unavailable`.
   */
  runReport(run?: number): Promise<RunReport>
  /**
   * All messages of the transcript; those that are not in a turn yet come last. Never older than what this handle's `state()`, events and
   * results have shown: if the store is behind, the session's workflow is asked.
   * @throws SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  messages(): Promise<MessageRow[]>
  /**
   * The current plan, or the one at a checkpoint (by its version); null if there is none. Requires an agent with the option `plan`.
   * @throws RequestRefusedError `checkpoint_not_found`, `events_gone`; InvalidOptionError `invalid_option`; SessionNotFoundError
   * `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  plan(options?: AtCheckpoint): Promise<Plan | null>
  /**
   * All versions of the plan, oldest first, including those archived when the session went back (`archivedSeq`).
   * @throws SessionNotFoundError `session_not_found`; RequestRefusedError `events_gone` for a pruned session; SessionUnavailableError
   * `session_unavailable`.
   */
  plans(): Promise<PlanVersion[]>
  /**
   * The current memory: the blocks that the agent declares, including empty ones, and blocks that it no longer declares but that have text.
   * The declaration is known from the session's first model call on. `at`: as it was at that checkpoint.
   * @throws RequestRefusedError `checkpoint_not_found`, `events_gone`; InvalidOptionError `invalid_option`; SessionNotFoundError
   * `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  memory(options?: AtCheckpoint): Promise<MemoryBlock[]>
  /**
   * All versions of the memory, oldest first, including those archived when the session went back (`archivedSeq`).
   * @throws SessionNotFoundError `session_not_found`; RequestRefusedError `events_gone` for a pruned session; SessionUnavailableError
   * `session_unavailable`.
   */
  memoryVersions(): Promise<MemoryVersion[]>
  /**
   * The transcript as it was at a checkpoint, or just before a turn took a message or a run began, including in an archived past.
   * @throws RequestRefusedError `checkpoint_not_found`, `message_not_found`, `run_not_found`, `invalid_target`, `events_gone` for a pruned
   * session; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  messagesUpTo(target: Target): Promise<MessageRow[]>
  /**
   * A value that an event refers to by `blob.sha256`, as JSON text: a message's content, or `{ value, content }` of a tool result.
   * Null if it is not, or no longer, in the side store. @throws StoreError `no_store`, `store_unavailable`.
   */
  blob(sha256: string): Promise<string | null>
  /**
   * The value of a slice, folded from the session's events by this process's code of `slice`: now, or at a checkpoint (by its version),
   * including in an archived past.
   * @throws RequestRefusedError `checkpoint_not_found`, or `events_gone` for a pruned session; InvalidOptionError `invalid_option`;
   * SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`; StoreError `no_store`, `store_unavailable` if
   * large values cannot be read.
   */
  slice<V>(slice: Slice<string, V>, options?: { at?: number }): Promise<V>
  /**
   * The slice's values over time: at each checkpoint where the value had changed, and now if it has changed since; oldest first. Rejects
   * like the overload above.
   */
  slice<V>(slice: Slice<string, V>, options: { all: true }): Promise<SliceMoment<V>[]>
  /**
   * The session's events above `after` (an integer from 0, the default); with `follow` it continues until the session closes or `signal`
   * aborts. `stored`: only those in Postgres, without waiting for a worker that could have newer ones; none for an unknown session. Invalid
   * options make the first step of the iteration reject.
   * @throws SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable` (neither with `follow`).
   */
  events(options?: { after?: number; follow?: boolean; stored?: boolean; signal?: AbortSignal }): AsyncIterable<SessionEvent>
  /**
   * What happens in the session after the event `after` (default 0: from its beginning), until the session closes or `signal` aborts: every
   * event once and in order, and between them the pieces of the model's answer, from the first piece of the answer in progress, and the
   * session's status. It reads as fast as you iterate: a watcher that pauses costs nothing and misses no event, but may miss pieces of an
   * answer that is recorded in the meantime. Without Postgres, events still arrive; pieces do not.
   */
  watch(options?: { after?: number; tree?: false; signal?: AbortSignal }): AsyncIterable<WatchItem>
  /**
   * The same for the session and those that answer its agent calls, directly or further down: each item names its session. A child is
   * watched from the call that asks it until it has told its caller how its run ended. `after`: the last event of this session, or of each
   * session that was being watched, by id; default 0. With a number, children that are at work then are watched from their beginning.
   */
  watch(options: { tree: true; after?: number | Record<string, number>; signal?: AbortSignal }): AsyncIterable<TreeItem>
  /**
   * Stops the run in progress; its outcome is `interrupted`. The signals of its model call and its tools abort. Messages that it has not
   * seen open the next run. `run`: only this run. Once it is over, nothing is stopped, even if another run is in progress.
   * @throws RequestRefusedError `invalid_request`; SessionNotFoundError `session_not_found` if no workflow of the session is open.
   */
  interrupt(options?: By & { run?: number }): Promise<void>
  /**
   * Takes a session out of `error`, even if its workflow has closed. Effects that the run completed are never repeated: they are replayed
   * by their keys, and the model is told about those that its transcript no longer shows.
   *
   * @throws RequestRefusedError `not_in_error`, `recovers_by_itself`, `outcome_unknown`, `no_effect`, `too_many_messages`,
   * `choose_strategy`, `no_run`, `session_moved`, `invalid_calls`, `invalid_request`, and for `selective` `no_calls`, `choose_calls`, `call_not_found`,
   * `no_result`, `already_completed`, `would_repeat_effect`, `events_unavailable`, `stale_watermark`, `agent_not_served`;
   * SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  recover(options?: RecoverOptions): Promise<void>
  /**
   * Answers the newest run's messages again: the session goes back to before its opening message, which waits again with the same id.
   * A run in progress is interrupted. The intent stays the same, so effects that the run completed are replayed, not repeated.
   *
   * @throws RequestRefusedError `run_not_found`, `outcome_unknown`, `session_moved`, `events_unavailable`, `stale_watermark`,
   * `workflow_reset`, `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  regenerate(options?: By & { seenSeq?: number }): Promise<RunHandle<O>>
  /**
   * Pauses the session: the step in progress (a model call, or the running calls) finishes, including its retries, and no other step begins
   * until `unpause`. Messages, decisions and answers are accepted in the meantime and take effect after `unpause`. A session whose workflow
   * has closed is reopened for this. `already`: it was already paused, and nothing changed.
   * @throws RequestRefusedError `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  pause(options?: By): Promise<PauseAnswer>
  /**
   * Lets a paused session continue. `already`: it was not paused.
   * @throws RequestRefusedError `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  unpause(options?: By): Promise<{ already: boolean }>
  /**
   * Raises limits of the run in progress or the one that failed (`scope: 'run'`, the default), or of the session: `maxUsd` and
   * `maxTotalTokens` are the complete new limits. A session in `error: budget_exhausted`, or paused because a cost had to be assumed,
   * continues in place. `already`: the limits were already that high, and nothing changed.
   * @throws RequestRefusedError `invalid_raise`, `limit_lower`, `no_limit` if the agent declares no such limit, `no_current_run`,
   * `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  raise(limits: RaiseOptions): Promise<{ already: boolean }>
  /**
   * Each limit of the session and of its run: what is spent, what is set aside for the model call in progress, and what is left. Empty
   * without limits, which are known from the session's first model call on. `at`: as they were at that checkpoint.
   * @throws RequestRefusedError `checkpoint_not_found`, `events_gone`; InvalidOptionError `invalid_option`; SessionNotFoundError
   * `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  budgets(options?: AtCheckpoint): Promise<SessionBudget[]>
  /**
   * Closes the session once its run has ended and everything is stored. The next `send` reopens it. `unschedule`: takes back its scheduled
   * messages first; otherwise a session with scheduled messages does not close.
   * @throws RequestRefusedError `messages_scheduled`, `not_open` for a session whose workflow ended without closing it, `invalid_request`;
   * SessionNotFoundError `session_not_found`.
   */
  close(options?: { by?: string; unschedule?: boolean } & Repeatable): Promise<void>
  /**
   * Reopens a session whose workflow has closed, and continues a run that was cut off. Returns a summary of the session.
   * @throws SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  resume(): Promise<Pick<SessionView, 'sessionId' | 'agent' | 'status' | 'seq' | 'run' | 'turns' | 'error'>>
  /**
   * Makes a checkpoint, in addition to those of the agent's policy. The reason has 1 to 1,000 characters. A checkpoint marks a
   * point between turns, and has a number, its `version`: while tool calls are in progress, the answer is `made: false`, and the checkpoint
   * is made when their turn closes.
   * @throws RequestRefusedError `invalid_reason`, `invalid_request`; SessionNotFoundError `session_not_found`; SessionUnavailableError
   * `session_unavailable`.
   */
  checkpoint(reason: string, options?: Omit<By, 'reason'>): Promise<{ version: number; made: boolean }>
  /**
   * Moves the session back; a run in progress is interrupted first. Everything after the target is archived. Completed effects cannot be
   * undone and are reported.
   * @throws RequestRefusedError `checkpoint_not_found`, `message_not_found`, `run_not_found`, `target_archived`, `invalid_target`,
   * `session_moved`, `events_unavailable`, `stale_watermark`, `workflow_reset`, `invalid_request`; SessionNotFoundError
   * `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  rollback(options: RollbackOptions): Promise<RollbackReport>
  /**
   * Creates a new session from any point in this one's past, whether this one is open or closed; they share nothing afterwards.
   * @throws RequestRefusedError `session_exists`, and those of `rollback` except `target_archived`; InvalidMessageError
   * `invalid_session_id`, `invalid_tags`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  fork(options?: ForkOptions): Promise<SessionHandle<O>>
  /**
   * Approves a call that waits for approval, with the model's arguments or with `input` instead: at most 1,000,000 bytes of JSON. Returns
   * the digest of the arguments to execute. `remember` approves later calls, too, without asking; the answer then has the rule's id, and
   * the calls of the session that it has approved besides.
   * @throws RequestRefusedError `call_not_found`, `not_waiting`, `digest_mismatch`, `approval_expired`,
   * `not_an_approver`, `invalid_rule`, `too_many_rules`, `invalid_request`, and with `input`
   * `invalid_arguments`, `invalid_idempotency_key`, `unknown_tool`, `already_completed`, `denied_by_hook`, `changed_by_hook`,
   * `agent_not_served`, `stale_watermark`; SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  approve(callId: string, decision: Decision & { input?: Json; remember?: Remember }): Promise<ApproveAnswer>
  /**
   * Denies a call that waits for approval; the model is told, with the reason (at most 4,000 bytes).
   * @throws RequestRefusedError `call_not_found`, `not_waiting`, `digest_mismatch`, `approval_expired`,
   * `not_an_approver`, `invalid_request`;
   * SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  deny(callId: string, decision: Decision & { reason?: string }): Promise<void>
  /**
   * Resolves a call whose outcome is unknown. `result` is what the tool would have returned, and must match the tool's `output`
   * schema, if it has one and a worker serves the tool. It has at most 1,000,000 bytes of JSON, `by` 1,000 and `note` 4,000.
   * @throws RequestRefusedError `call_not_found`, `not_unknown`, `call_has_ended`, `invalid_resolution`, `invalid_request`;
   * SessionNotFoundError `session_not_found`; SessionUnavailableError `session_unavailable`.
   */
  resolve(callId: string, resolution: ResolveRequest['resolution'], options?: Omit<By, 'reason'> & { note?: string }): Promise<void>
  /**
   * Answers a call of a client tool, with at most 1,000,000 bytes of JSON; `session.answer<typeof tool>(…)` types the answer by the tool's
   * `output` schema. Also answers a question of another tool, with at most 64,000 bytes: `{ action: 'accept', content }`, where `content`
   * matches the question's schema, `{ action: 'decline' }` or `{ action: 'cancel' }`. `digest`: that of the question; if the call asks
   * another one by now, the answer is refused.
   * @throws RequestRefusedError `call_not_found`, `not_waiting`, `digest_mismatch`, `agent_not_served`, `invalid_request`; `invalid_answer`
   * for one that does not match the schema of the tool's output or of the question; SessionNotFoundError `session_not_found`;
   * SessionUnavailableError `session_unavailable`.
   */
  answer<T extends Tool = Tool<ToolNeeds, Json>>(
    callId: string,
    result: AnswerOf<T>,
    options?: Omit<By, 'reason'> & { digest?: string },
  ): Promise<void>
}
