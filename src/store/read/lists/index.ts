// Lists over sessions, for the client's lists and feed. Callers check the filters.
import type { Logger } from '../../../agent/tool.ts'
import { boundedReads, type Database } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { CHECKPOINTS, findLatestCheckpoint } from './checkpoints.ts'
import { readCompactions } from './compactions.ts'
import { ERRORS } from './errors.ts'
import { readFailures } from './failures.ts'
import { type FeedFilter, type FeedNeeds, type FeedRows, readFeed } from './feed.ts'
import { type Erasure, findErasure } from './erasure.ts'
import { findAgentNames, findNeighbours } from './neighbours.ts'
import { MESSAGES, readArchived, readScheduled } from './messages.ts'
import type {
  ArchivedMessage,
  ListedCheckpoint,
  ListedCompaction,
  ListedError,
  ListedMessage,
  ListedPendingCall,
  ListedRun,
  ListedSession,
  ListedToolCall,
  SessionInError,
} from '../../listed.ts'
import type {
  ErrorFilter,
  InErrorFilter,
  FailureFilter,
  Key,
  OverviewFilter,
  Paging,
  PendingFilter,
  Rows,
  SessionFilter,
  SessionToolCallFilter,
  ToolCallFilter,
  StartedSession,
  UnfinishedFilter,
  UsageFilter,
} from '../../filters.ts'
import type { FailureReport, StatusOverview, UsageSum } from '../../sums.ts'
import { heldUpReports } from '../held-up.ts'
import { findRun } from './run.ts'
import { findSession, IN_ERROR, SESSIONS } from './sessions.ts'
import { readCalls, TOOL_CALLS } from './tool-calls.ts'
import { type StoredList, readList } from './page.ts'
import { PENDING } from './pending.ts'
import { readOverview, readUnfinished, storedAmong } from './overview.ts'
import { sumUsage } from './usage.ts'

export type { FeedFilter, FeedRows } from './feed.ts'
export type * from '../../filters.ts'
export type * from '../../listed.ts'
export type * from '../../rows.ts'
export type * from '../../sums.ts'

/**
 * The lists. Each rejects with `StoreError` (`schema_behind`, `store_unavailable`, …) and, for an invalid cursor, with InvalidOptionError
 * `invalid_cursor`.
 */
export interface Lists {
  /** Sessions by creation, newest first. */
  sessions(filter: SessionFilter, paging: Paging): Promise<Rows<ListedSession>>
  session(sessionId: string): Promise<ListedSession | null>
  /** The ids next to this one, in their order. */
  neighbours(sessionId: string): Promise<string[]>
  /** The erasure of the session; null if it was not erased, or a message has started it again. */
  erasure(sessionId: string): Promise<Erasure | null>
  /** The names of the first 100 agents that have sessions, in alphabetical order. */
  agentNames(): Promise<string[]>
  /** Sessions whose status is `error`, by creation, newest first. */
  inError(filter: InErrorFilter, paging: Paging): Promise<Rows<SessionInError>>
  /** The open sessions by what they need, most urgent first. */
  overview(filter: OverviewFilter): Promise<StatusOverview>
  /** Sessions whose workflow should be open, quietest first, and how many there are. */
  unfinished(filter: UnfinishedFilter): Promise<{ sessionIds: string[]; count: number }>
  /** The executions whose sessions the store has recorded as opened. */
  storedAmong(executions: readonly StartedSession[]): Promise<string[]>
  /** The transcript in order; messages that are not in a turn yet come last. */
  messages(sessionId: string, paging: Paging): Promise<Rows<ListedMessage>>
  /** The messages of a session that are delivered later, the earliest first. */
  scheduled(sessionId: string): Promise<ListedMessage[]>
  /** Messages removed from the transcript, in the order of removal. */
  archivedMessages(sessionId: string): Promise<ArchivedMessage[]>
  /** Newest first, including archived ones. */
  checkpoints(sessionId: string, paging: Paging): Promise<Rows<ListedCheckpoint>>
  /** The newest one that is not archived. */
  latestCheckpoint(sessionId: string): Promise<ListedCheckpoint | null>
  /** The compactions of a session, in order. */
  compactions(sessionId: string): Promise<ListedCompaction[]>
  /** Newest first. */
  errors(filter: ErrorFilter, paging: Paging): Promise<Rows<ListedError>>
  /** Statistics of failures. */
  failures(filter: FailureFilter): Promise<FailureReport>
  /** Tool calls by the time of their request, newest first. */
  toolCalls(filter: ToolCallFilter, paging: Paging): Promise<Rows<ListedToolCall>>
  /** All matching calls of one session, in the order of the model's requests, with large results. */
  toolCallsOf(sessionId: string, filter?: SessionToolCallFilter): Promise<ListedToolCall[]>
  /** One run; null if it is not stored. */
  run(sessionId: string, run: number): Promise<ListedRun | null>
  /** Calls that wait for a person or a client, oldest request first. */
  pending(filter: PendingFilter, paging: Paging): Promise<Rows<ListedPendingCall>>
  /** Days newest first, others highest cost first. */
  usage(filter: UsageFilter, paging: Paging): Promise<Rows<UsageSum>>
  /** Events of all sessions after a place, at most a few hundred. */
  feed(filter: FeedFilter, after: Key | undefined): Promise<FeedRows>
}

/** What the lists of a store need. */
export interface ListNeeds {
  database: Pick<Database, 'snapshot' | 'sequence'>
  schema: PostgresSchema
  /** Prepares the store for each list. */
  reading<T>(work: () => Promise<T>): Promise<T>
  logger: Logger | undefined
}

/** The lists of a store. */
export function listsOf({ database, schema, reading, logger }: ListNeeds): Lists {
  const reads = boundedReads(database)
  const ofFeed: FeedNeeds = { database, schema, report: logger && heldUpReports(logger) }
  const paged =
    <F, T>(list: StoredList<F, T>) =>
    (filter: F, paging: Paging): Promise<Rows<T>> =>
      reading(() => readList(reads, schema, list, filter, paging))
  return {
    sessions: paged(SESSIONS),
    session: (sessionId) => reading(() => findSession(reads, schema, sessionId)),
    erasure: (sessionId) => reading(() => findErasure(reads, schema, sessionId)),
    neighbours: (sessionId) => reading(() => findNeighbours(reads, schema, sessionId)),
    agentNames: () => reading(() => findAgentNames(reads, schema)),
    inError: paged(IN_ERROR),
    overview: (filter) => reading(() => database.snapshot((at) => readOverview(at, schema, filter))),
    unfinished: (filter) => reading(() => readUnfinished(reads, schema, filter)),
    storedAmong: (executions) => reading(() => storedAmong(reads, schema, executions)),
    messages: paged(MESSAGES),
    scheduled: (sessionId) => reading(() => readScheduled(reads, schema, sessionId)),
    archivedMessages: (sessionId) => reading(() => readArchived(reads, schema, sessionId)),
    checkpoints: paged(CHECKPOINTS),
    latestCheckpoint: (sessionId) => reading(() => findLatestCheckpoint(reads, schema, sessionId)),
    compactions: (sessionId) => reading(() => readCompactions(reads, schema, sessionId)),
    errors: paged(ERRORS),
    failures: (filter) => reading(() => database.snapshot((at) => readFailures(at, schema, filter))),
    toolCalls: paged(TOOL_CALLS),
    toolCallsOf: (sessionId, filter = {}) => reading(() => readCalls(reads, schema, sessionId, filter)),
    run: (sessionId, run) => reading(() => database.snapshot((at) => findRun(at, schema, sessionId, run))),
    pending: paged(PENDING),
    usage: (filter, paging) => reading(() => sumUsage(reads, schema, filter, paging)),
    feed: (filter, after) => reading(() => readFeed(ofFeed, filter, after)),
  }
}
