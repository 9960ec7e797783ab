// Queries over sessions that use only the side store: paged lists, sums, and the feed.
import type { Target } from '../../session/events.ts'
import type { MemoryBlock } from '../../session/built-in-tools/memory.ts'
import type { MemoryVersion, PlanVersion } from '../../session/built-in-tools/kept.ts'
import type { Plan } from '../../session/built-in-tools/plan.ts'
import {
  type ArchivedMessage,
  type FailureReport,
  type Key,
  type ListedCheckpoint,
  type ListedCompaction,
  type ListedError,
  type ListedMessage,
  type ListedPendingCall,
  type ListedSession,
  type ListedToolCall,
  type MessageRow,
  openStore,
  type Paging,
  type Rows,
  type StatusOverview,
  type Store,
  type UsageBy,
  type UsageSum,
} from '../../store/index.ts'
import { SessionNotFoundError } from '../errors.ts'
import { type SessionBudget, storedBudgets } from '../session/budget.ts'
import { storedStateAt } from '../session/at-checkpoint.ts'
import { sayingIfGone } from '../session/erased.ts'
import { memoryOf, readMemoryVersions, readPlans } from '../session/versions.ts'
import { type QueriesOptions, checkQueriesOptions } from './queries-options.ts'
import { type FeedEvent, readFeed } from './feed.ts'
import { type List, listOf } from './list.ts'
import {
  errorFilter,
  type ErrorListOptions,
  failureFilter,
  type FailureOptions,
  feedOptions,
  type FeedOptions,
  overviewFilter,
  type OverviewOptions,
  paging,
  type PageOptions,
  pagingAt,
  pendingFilter,
  type PendingListOptions,
  sessionFilter,
  type SessionListOptions,
  sessionOption,
  sessionPendingOptions,
  type SessionRowsOptions,
  sessionToolCallFilter,
  type SessionToolCallOptions,
  sessionUsageOptions,
  toolCallFilter,
  type ToolCallListOptions,
  type TreeOptions,
  usageFilter,
  type UsageOptions,
} from './list-options.ts'
import { withValues } from '../session/large-content.ts'
import { noStore, storeOr } from '../no-store.ts'
import { type ReadPage, transcriptAt } from '../session/past.ts'
import type { Erasure } from '../../store/read/lists/erasure.ts'
import { readRunReport, type RunReport } from '../session/run-report.ts'
import { readReport, type SessionReport } from '../session/status.ts'
import { defined } from '../../session/defined.ts'

/**
 * Queries of the side store over all sessions. They show what is stored, which is usually milliseconds behind.
 * All of them reject with `InvalidOptionError` (`invalid_option`, `invalid_cursor`) and `StoreError` (`no_store`, `store_unavailable`, …);
 * queries about one session that the store does not know reject with `SessionNotFoundError`.
 */
export interface Queries {
  /** Sessions as rows of the side store. */
  readonly sessions: {
    /** Sessions by creation time, newest first. */
    list(options?: SessionListOptions): List<ListedSession>
    /** One session. @throws SessionNotFoundError `session_not_found`. */
    get(sessionId: string): Promise<ListedSession>
  }
  /** The open sessions and their number: those that need a person first, then those that are stuck, then the others. */
  overview(options?: OverviewOptions): Promise<StatusOverview>
  /** The transcript of a session in order; messages that are not in a turn yet come last. */
  messages(options: SessionRowsOptions): List<ListedMessage>
  /** The checkpoints of a session, newest first; `archivedSeq` marks those in an archived part of the session. */
  checkpoints(options: SessionRowsOptions): List<ListedCheckpoint>
  /** Failed attempts, and failures of whole runs (without `attempt`), newest first. */
  errors(options?: ErrorListOptions): List<ListedError>
  /** Failure statistics: error rate by agent, repeated failures, outcomes of recoveries, and time in error. */
  failures(options?: FailureOptions): Promise<FailureReport>
  /** Tool calls by the time the model requested them, newest first. */
  toolCalls(options?: ToolCallListOptions): List<ListedToolCall>
  /** Calls that wait for a person or a client. */
  readonly pending: {
    /** The inbox: calls that wait for a person or a client, longest wait first. */
    list(options?: PendingListOptions): List<ListedPendingCall>
  }
  /** Total tokens and US dollars: days (UTC) newest first, turns in order, all other groups highest cost first. */
  usage(options: UsageOptions): List<UsageSum>
  /** The events of all sessions: each at least once, none skipped, in order within a session. Events a fork inherited are not repeated. */
  events(options?: FeedOptions): AsyncIterable<FeedEvent>
}

/** Queries about one session. */
export interface SessionQueries {
  /** All checkpoints, newest first. */
  checkpoints(): Promise<ListedCheckpoint[]>
  /** The newest checkpoint that is not archived; null if there is none. */
  latestCheckpoint(): Promise<ListedCheckpoint | null>
  /** The summaries that replaced parts of the conversation for the model, in order, including those that a rollback discarded. */
  compactions(): Promise<ListedCompaction[]>
  /** Tool calls, by default all, in the order in which the model requested them. */
  toolCalls(options?: SessionToolCallOptions): Promise<ListedToolCall[]>
  /**
   * The inbox of the session, or of its `tree`: calls that wait for a person or a client, longest wait first. Decide each in its own session:
   * `pawl.session(call.sessionId)`.
   */
  pending(options?: TreeOptions): Promise<ListedPendingCall[]>
  /** Total tokens and US dollars of the session, or of its `tree`, highest cost first. `by` default: `session`. */
  usage(options?: TreeOptions & { by?: Exclude<UsageBy, 'turn'> }): Promise<UsageSum[]>
  /** All failed attempts and runs, in the order in which they happened. */
  errors(): Promise<ListedError[]>
  /**
   * Messages removed from the transcript by a rollback, a restart or pruning; only `erase` and `archiveRetention` of `prune` delete them.
   */
  archivedMessages(): Promise<ArchivedMessage[]>
}

/** Queries of a store that was opened on its own, without Temporal. */
export interface StoreQueries extends Queries {
  /** The ids of sessions that precede and follow this one in order. */
  neighbours(sessionId: string): Promise<string[]>
  /** The erasure of the session; null if it was not erased, or a message has started it again. */
  erasure(sessionId: string): Promise<Erasure | null>
  /** The messages that the session delivers later, the earliest first. */
  scheduled(sessionId: string): Promise<ListedMessage[]>
  /** The names of the first 100 agents that have sessions, in alphabetical order. */
  agentNames(): Promise<string[]>
  session(sessionId: string): SessionQueries & StoredSession
  close(): Promise<void>
}

/** What the side store alone knows about one session. */
export interface StoredSession {
  messagesUpTo(target: Target): Promise<MessageRow[]>
  status(): Promise<SessionReport>
  runReport(run?: number): Promise<RunReport>
  plans(): Promise<PlanVersion[]>
  plan(at: number): Promise<Plan | null>
  memory(at?: number): Promise<MemoryBlock[]>
  memoryVersions(): Promise<MemoryVersion[]>
  budgets(at?: number): Promise<SessionBudget[]>
}

const PAGE_LIMIT = 1_000

/** Queries of a store; without a store, every query rejects with `no_store`. */
export function queriesOf(store: Store | undefined): Queries {
  const lists = () => storeOr(store).lists

  /** A list that belongs to one session, which must exist. */
  function ofSession<T>(name: string, options: SessionRowsOptions, read: (sessionId: string, paging: Paging) => Promise<Rows<T>>): List<T> {
    return listOf(() => {
      const session = sessionOption(options)
      const { limit, cursor } = paging(options)
      return {
        name,
        filter: { session },
        cursor,
        read: (after) => existing(storeOr(store), session, read(session, pagingAt(limit, after))),
      }
    })
  }

  function overSessions<F extends object, T>(
    name: string,
    options: PageOptions | undefined,
    filterOf: (options: unknown) => F,
    read: (filter: F, paging: Paging) => Promise<Rows<T>>,
  ): List<T> {
    return listOf(() => {
      const filter = filterOf(options)
      const { limit, cursor } = paging(options)
      return { name, filter, cursor, read: (after: Key | undefined) => read(filter, pagingAt(limit, after)) }
    })
  }

  return {
    sessions: {
      list: (options) => overSessions('sessions', options, sessionFilter, (filter, page) => lists().sessions(filter, page)),
      async get(sessionId) {
        const found = await lists().session(sessionId)
        if (!found) throw new SessionNotFoundError(sessionId, { where: 'store' })
        return found
      },
    },
    overview: async (options) => lists().overview(overviewFilter(options)),
    messages: (options) => ofSession('messages', options, (sessionId, page) => lists().messages(sessionId, page)),
    checkpoints: (options) => ofSession('checkpoints', options, (sessionId, page) => lists().checkpoints(sessionId, page)),
    errors: (options) => overSessions('errors', options, errorFilter, (filter, page) => lists().errors(filter, page)),
    failures: async (options) => lists().failures(failureFilter(options)),
    toolCalls: (options) => overSessions('toolCalls', options, toolCallFilter, (filter, page) => lists().toolCalls(filter, page)),
    pending: {
      list: (options) => overSessions('pending', options, pendingFilter, (filter, page) => lists().pending(filter, page)),
    },
    usage: (options) => overSessions('usage', options, usageFilter, (filter, page) => lists().usage(filter, page)),
    async *events(options) {
      yield* readFeed(storeOr(store), feedOptions(options))
    },
  }
}

/** Queries of a store about one session. */
export function sessionQueriesOf(store: Store | undefined, sessionId: string): SessionQueries {
  const queries = queriesOf(store)
  const lists = () => storeOr(store).lists
  const all = async <T>(list: List<T>): Promise<T[]> => {
    const items: T[] = []
    for await (const item of list) items.push(item)
    return items
  }
  return {
    checkpoints: () => all(queries.checkpoints({ session: sessionId, limit: PAGE_LIMIT })),
    async latestCheckpoint() {
      const latest = await lists().latestCheckpoint(sessionId)
      return latest ?? existing(storeOr(store), sessionId, Promise.resolve(null))
    },
    async compactions() {
      return existing(storeOr(store), sessionId, lists().compactions(sessionId))
    },
    async toolCalls(options) {
      const filter = sessionToolCallFilter(options)
      return existing(storeOr(store), sessionId, lists().toolCallsOf(sessionId, filter))
    },
    async pending(options) {
      const { tree } = sessionPendingOptions(options)
      const calls = await all(queries.pending.list({ session: sessionId, limit: PAGE_LIMIT, ...defined({ tree }) }))
      return existing(storeOr(store), sessionId, Promise.resolve(calls))
    },
    async usage(options) {
      const { by, tree } = sessionUsageOptions(options)
      const sums = await all(queries.usage({ by, session: sessionId, limit: PAGE_LIMIT, ...defined({ tree }) }))
      return existing(storeOr(store), sessionId, Promise.resolve(sums))
    },
    async errors() {
      const newestFirst = await all(queries.errors({ session: sessionId, limit: PAGE_LIMIT }))
      return existing(storeOr(store), sessionId, Promise.resolve(newestFirst.sort((a, b) => a.seq - b.seq)))
    },
    async archivedMessages() {
      return existing(storeOr(store), sessionId, lists().archivedMessages(sessionId))
    },
  }
}

/**
 * Queries of the side store alone, which is opened on first use.
 * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`.
 */
export function openQueries(given: QueriesOptions = {}): StoreQueries {
  const { postgres = process.env.DATABASE_URL, schema, logger, onWait } = checkQueriesOptions(given)
  if (!postgres) throw noStore()
  const store = openStore({
    postgres,
    migrate: 'off',
    ...defined({ schema }),
    ...(logger && { logger }),
    ...(onWait && { onWait }),
  })
  return {
    ...queriesOf(store),
    neighbours: (sessionId) => store.lists.neighbours(sessionId),
    erasure: (sessionId) => store.lists.erasure(sessionId),
    scheduled: (sessionId) => store.lists.scheduled(sessionId),
    agentNames: () => store.lists.agentNames(),
    session: (sessionId) => storedSession(store, sessionId),
    close: () => store.close(),
  }
}

function storedSession(store: Store, sessionId: string): SessionQueries & StoredSession {
  const source = { sessionId, store }
  const read: ReadPage = (after) => store.events(sessionId, { after })
  const stateThen = (at: number | undefined) => sayingIfGone(source, () => storedStateAt(store, sessionId, at))
  return {
    ...sessionQueriesOf(store, sessionId),
    messagesUpTo: (target) => sayingIfGone(source, () => transcriptOf(store, sessionId, read, target)),
    status: () => readReport(source),
    runReport: (run) => sayingIfGone(source, () => readRunReport(source, run)),
    plans: () => sayingIfGone(source, () => readPlans(sessionId, read)),
    plan: async (at) => (await stateThen(at)).plan?.current ?? null,
    memory: async (at) => memoryOf(await stateThen(at)),
    memoryVersions: () => sayingIfGone(source, () => readMemoryVersions(sessionId, read)),
    budgets: (at) => sayingIfGone(source, () => storedBudgets(store, sessionId, at)),
  }
}

/** The transcript at a point of the session's past. @throws SessionNotFoundError, RequestRefusedError. */
export async function transcriptOf(store: Store | undefined, sessionId: string, read: ReadPage, target: Target): Promise<MessageRow[]> {
  if ((await read(0)).length === 0) throw new SessionNotFoundError(sessionId, { where: 'store' })
  return transcriptAt(read, target, (events) => withValues(store, sessionId, events))
}

/** Returns what was read; an empty result rejects if the session does not exist. */
async function existing<T extends Rows<unknown> | unknown[] | null>(store: Store, sessionId: string, reading: Promise<T>): Promise<T> {
  const read = await reading
  const items = Array.isArray(read) ? read : (read?.items ?? [])
  if (items.length === 0 && !(await store.head(sessionId))) throw new SessionNotFoundError(sessionId, { where: 'store' })
  return read
}
