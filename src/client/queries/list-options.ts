// Options of lists, validated on entry: a misspelt option is refused, not ignored.
import { z } from 'zod'
import { EVENT_TYPES } from '../../session/event-types.ts'
import type { EventType, SessionStatus } from '../../session/events.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import type {
  ErrorFilter,
  FailureFilter,
  OverviewFilter,
  Paging,
  PendingFilter,
  PendingKind,
  SessionFilter,
  SessionToolCallFilter,
  ToolCallFilter,
  UsageBy,
  UsageFilter,
} from '../../store/read/lists/index.ts'
import { checkOptions, flag, integer, oneOf, options, signal, text, where } from '../../options/check.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { defined } from '../../session/defined.ts'

/** A moment: a `Date`, milliseconds since 1970, or ISO text. */
export type Moment = Date | number | string

/** A span of time: from `since`, inclusive, to `until`, exclusive. */
export interface SpanOptions {
  /** Start of the span, inclusive. Default: the beginning. */
  since?: Moment
  /** End of the span, exclusive. Default: no end. */
  until?: Moment
}

/** The size of a page, and where it begins. */
export interface PageOptions {
  /** Items per page, 1 to 1,000. Default: 50. */
  limit?: number
  /** The cursor of the previous page. Default: none; the first page. */
  cursor?: string | undefined
}

/** Which sessions to list; the span applies to their creation time. */
export interface SessionListOptions extends SpanOptions, PageOptions {
  /** Sessions with this status, or one of these. Default: any. */
  status?: SessionStatus | SessionStatus[]
  /** Only sessions that are paused, or only those that are not. Default: both. */
  paused?: boolean
  /** Sessions with this agent. Default: any. */
  agent?: string
  /** Sessions that have this tag: text that is not empty. Default: any. */
  tag?: string
  /** Sessions that have all of these tags: at least one, each of at least one character. Default: any. */
  tags?: string[]
  /** Also sessions that answer agent calls of other sessions. Default false: they are left out. */
  children?: boolean
  /** Only this session and those that answer its agent calls, directly or further down. Default: any. */
  tree?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Whether to include the sessions that answer a session's agent calls. */
export interface TreeOptions {
  /** The session and those that answer its agent calls, directly or further down. Default false: only the session. */
  tree?: boolean
}

/** Options of a list that belongs to one session. */
export interface SessionRowsOptions extends PageOptions {
  /** The session's id. Required. */
  session: string
}

/** Which errors to list. */
export interface ErrorListOptions extends SpanOptions, PageOptions {
  /** The id of one session. Default: all sessions. */
  session?: string
  /** Where the error occurred: `model`, `tool:<name>`, `run` or `checkpoint`. Default: anywhere. */
  context?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which open sessions an overview lists. */
export interface OverviewOptions {
  /** How many sessions are listed, 1 to 1,000. Default: 50. */
  limit?: number
  /** Limits the result to this agent. Default: all. */
  agent?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which failures to count. */
export interface FailureOptions extends SpanOptions {
  /** Start of the span, inclusive. Default: 24 hours ago. */
  since?: Moment
  /** Limits the result to this agent. Default: all. */
  agent?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which tool calls to list; the span applies to the time at which the model requested them. */
export interface ToolCallListOptions extends SpanOptions, PageOptions {
  /** The id of one session. Default: all sessions. */
  session?: string
  /** Calls with this status, or one of these. Default: any. */
  status?: ToolCallStatus | ToolCallStatus[]
  /** Calls of this tool. Default: any. */
  tool?: string
  /** Calls with this idempotency key: the one that had the effect, and those that received its result. Default: any. */
  key?: string
  /** Calls whose effect has this id in the outside world, such as a refund's id. Default: any. */
  effectId?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which tool calls of one session to list. */
export interface SessionToolCallOptions {
  /** Calls with this status, or one of these. Default: any. */
  status?: ToolCallStatus | ToolCallStatus[]
  /** Calls of this tool. Default: any. */
  tool?: string
  /** Calls of this run. Default: all runs. */
  run?: number
}

/** Which pending calls to list. A pending call waits for a person or a client. */
export interface PendingListOptions extends PageOptions {
  /** What the calls wait for. Default: anything. */
  kind?: PendingKind | PendingKind[]
  /** Calls of sessions with this agent. Default: any. */
  agent?: string
  /** Calls of sessions that have this tag: text that is not empty. Default: any. */
  tag?: string
  /** Calls of sessions that have all of these tags: at least one, each of at least one character. Default: any. */
  tags?: string[]
  /** The id of one session. Default: all sessions. */
  session?: string
  /** With `session`: also the calls of the sessions that answer its agent calls, directly or further down. Default false. */
  tree?: boolean
  /** Calls that a person with this role must approve. Default: any. */
  role?: string
  /** Calls that wait for an approval and have this `group`. Default: any. */
  group?: string
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which usage to sum up, and how to group it. */
export interface UsageOptions extends SpanOptions, PageOptions {
  /** What the usage is grouped by. Required. `turn` requires `session`. */
  by: UsageBy
  /** The id of one session. Default: all sessions. */
  session?: string
  /** With `session`: also the usage of the sessions that answer its agent calls, directly or further down. Default false. */
  tree?: boolean
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

/** Which events the feed yields. */
export interface FeedOptions {
  /** Events of these types. Default: all. */
  types?: EventType[]
  /** Events of sessions with this agent. Default: any. */
  agent?: string
  /** The cursor of the last event that was processed. Default: none; the feed begins with the first stored event. */
  after?: string | undefined
  /** Continues with new events as they are stored, until `signal` aborts. Default: false; the feed ends after the last stored event. */
  follow?: boolean
  /** Ends the feed. Default: none. */
  signal?: AbortSignal
  /** Limits the result to sessions whose id begins with this, such as those of one tenant. Default: any. */
  idPrefix?: string
}

export const STATUSES = ['idle', 'running', 'waiting', 'error', 'closed'] as const satisfies SessionStatus[]
export const CALL_STATUSES = [
  'issued',
  'running',
  'awaiting_approval',
  'awaiting_answer',
  'asleep',
  'completed',
  'failed',
  'denied',
  'unknown',
  'replayed',
  'skipped',
] as const satisfies ToolCallStatus[]
/** What a call can wait for. */
export const PENDING_KINDS = ['approval', 'client', 'question', 'unknown'] as const satisfies PendingKind[]
/** What usage can be grouped by. */
export const SUMS = ['agent', 'day', 'model', 'session', 'turn'] as const satisfies UsageBy[]
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 1_000
const DAY_MS = 86_400_000

const someText = text()
/** Postgres supports no year before -4713, and its ISO text no year with more than four digits. */
const moment = z
  .unknown()
  .transform(dateOf)
  .pipe(
    where<Date>(
      (date) => date instanceof Date && date.getTime() >= 0 && date.getUTCFullYear() < 10_000,
      'a Date, milliseconds since 1970, or ISO text such as 2026-11-21T12:00:00Z',
    ),
  )
export const TAGS = {
  tag: someText.optional(),
  tags: where<string[]>(
    (value) => Array.isArray(value) && value.length > 0 && value.every(isText),
    'a non-empty list of non-empty strings',
  ).optional(),
}
export const SPAN = { since: moment.optional(), until: moment.optional() }
/** The check of `PageOptions`. */
export const PAGE = { limit: integer(1, MAX_LIMIT).optional(), cursor: someText.optional() }

const SESSIONS = options({
  idPrefix: someText.optional(),
  status: someOf(STATUSES).optional(),
  paused: flag().optional(),
  agent: someText.optional(),
  children: flag().optional(),
  tree: someText.optional(),
  ...TAGS,
  ...SPAN,
  ...PAGE,
})
const SESSION_ROWS = options({ session: where<string>(isText, 'the id of a session'), ...PAGE })
const ERRORS = options({ idPrefix: someText.optional(), session: someText.optional(), context: someText.optional(), ...SPAN, ...PAGE })
const OVERVIEW = options({ idPrefix: someText.optional(), limit: integer(1, MAX_LIMIT).optional(), agent: someText.optional() })
const FAILURES = options({ idPrefix: someText.optional(), agent: someText.optional(), ...SPAN })
const TOOL_CALLS = options({
  idPrefix: someText.optional(),
  session: someText.optional(),
  status: someOf(CALL_STATUSES).optional(),
  tool: someText.optional(),
  key: someText.optional(),
  effectId: someText.optional(),
  ...SPAN,
  ...PAGE,
})
const SESSION_TOOL_CALLS = options({
  status: someOf(CALL_STATUSES).optional(),
  tool: someText.optional(),
  run: integer(1, Number.MAX_SAFE_INTEGER).optional(),
})
const PENDING = options({
  idPrefix: someText.optional(),
  kind: someOf(PENDING_KINDS).optional(),
  agent: someText.optional(),
  ...TAGS,
  session: someText.optional(),
  tree: flag().optional(),
  role: someText.optional(),
  group: someText.optional(),
  ...PAGE,
})
const USAGE = options({
  idPrefix: someText.optional(),
  by: oneOf(...SUMS),
  session: someText.optional(),
  tree: flag().optional(),
  ...SPAN,
  ...PAGE,
})
const SESSION_PENDING = options({ tree: flag().optional() })
const SESSION_USAGE = options({ tree: flag().optional(), by: oneOf('agent', 'day', 'model', 'session').optional() })
const FEED = options({
  idPrefix: someText.optional(),
  types: someOf(EVENT_TYPES).optional(),
  agent: someText.optional(),
  after: someText.optional(),
  follow: flag().optional(),
  signal: signal().optional(),
})

/** The filter of a list of sessions. @throws InvalidOptionError `invalid_option`; so do the functions below. */
export function sessionFilter(given: unknown = {}): SessionFilter {
  const { since, until, status, paused, agent, tag, tags, children, tree, idPrefix } = checkOptions(SESSIONS, given)
  return defined({ idPrefix, since, until, status, paused, agent, children, tree, tags: tagsOf(tag, tags) })
}

/** The session that a list belongs to. */
export function sessionOption(given: unknown = {}): string {
  return checkOptions(SESSION_ROWS, given).session
}

export function errorFilter(given: unknown = {}): ErrorFilter {
  const { since, until, session, context, idPrefix } = checkOptions(ERRORS, given)
  return defined({ idPrefix, since, until, session, context })
}

export function overviewFilter(given: unknown = {}): OverviewFilter {
  const { limit = DEFAULT_LIMIT, agent, idPrefix } = checkOptions(OVERVIEW, given)
  return { limit, ...defined({ idPrefix, agent }) }
}

export function failureFilter(given: unknown = {}): FailureFilter {
  const { since = new Date(Date.now() - DAY_MS), until, agent, idPrefix } = checkOptions(FAILURES, given)
  return { since, ...defined({ idPrefix, until, agent }) }
}

export function toolCallFilter(given: unknown = {}): ToolCallFilter {
  const { since, until, session, status, tool, key, effectId, idPrefix } = checkOptions(TOOL_CALLS, given)
  return defined({ idPrefix, since, until, session, status, tool, key, effectId })
}

export function sessionToolCallFilter(given: unknown = {}): SessionToolCallFilter {
  return defined(checkOptions(SESSION_TOOL_CALLS, given))
}

export function pendingFilter(given: unknown = {}): PendingFilter {
  const { kind, agent, tag, tags, session, tree, role, group, idPrefix } = checkOptions(PENDING, given)
  requireRoot(session, tree)
  return defined({ idPrefix, kind: kind && [...new Set(kind)].sort(), agent, tags: tagsOf(tag, tags), session, tree, role, group })
}

function requireRoot(session: string | undefined, tree: boolean | undefined): void {
  if (tree && session === undefined) throw new InvalidOptionError('`tree: true` needs the session at its root. Name it with `session`.')
}

/** Whether the calls of the whole tree are listed. */
export function sessionPendingOptions(given: unknown = {}): TreeOptions {
  return defined(checkOptions(SESSION_PENDING, given))
}

/** How a session's usage is grouped. */
export function sessionUsageOptions(given: unknown = {}): TreeOptions & { by: UsageBy } {
  const { by = 'session', tree } = checkOptions(SESSION_USAGE, given)
  return { by, ...defined({ tree }) }
}

/** The filter and the grouping of usage. */
export function usageFilter(given: unknown = {}): UsageFilter {
  const { by, since, until, session, tree, idPrefix } = checkOptions(USAGE, given)
  requireRoot(session, tree)
  if (by === 'turn' && session === undefined) {
    throw new InvalidOptionError("`by: 'turn'` sums up the turns of one session. Name it with `session`.")
  }
  if (by === 'turn' && tree) throw new InvalidOptionError("`by: 'turn'` sums up the turns of one session, so it excludes `tree`.")
  return { by, ...defined({ idPrefix, since, until, session, tree }) }
}

export function feedOptions(given: unknown = {}): FeedOptions {
  return defined(checkOptions(FEED, given))
}

/** The size and the cursor of a page, from validated options. */
export function paging({ limit = DEFAULT_LIMIT, cursor }: PageOptions = {}): { limit: number; cursor: string | undefined } {
  return { limit, cursor }
}

/** The same in the form that the store accepts. */
export function pagingAt(limit: number, after: Paging['after']): Paging {
  return { limit, ...(after && { after }) }
}

export function tagsOf(tag: string | undefined, tags: string[] = []): string[] | undefined {
  const all = [...tags, ...(tag === undefined ? [] : [tag])]
  return all.length > 0 ? all : undefined
}

function isText(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

function dateOf(value: unknown): unknown {
  return value instanceof Date || typeof value === 'number' || typeof value === 'string' ? new Date(value) : value
}

/** One of these values, or a list of them; parsed to a list. */
function someOf<T extends string>(among: readonly T[]) {
  const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value])
  return where<T | T[]>(
    (value) => listOf(value).length > 0 && listOf(value).every((one) => among.includes(one as T)),
    `one or more of ${among.join(', ')}`,
  ).transform((value) => listOf(value) as T[])
}
