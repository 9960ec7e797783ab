// Options of lists, checked where they come in: a misspelt one is refused, not left out.
import { z } from 'zod'
import { EVENT_TYPES } from '../../session/event-types.ts'
import type { EventType, SessionStatus, ToolCallStatus } from '../../session/events.ts'
import type {
  ErrorFilter,
  FailureFilter,
  OverviewFilter,
  Paging,
  PendingFilter,
  PendingKind,
  SessionFilter,
  ToolCallFilter,
  UsageBy,
  UsageFilter,
} from '../../store/read/lists/index.ts'
import { checkOptions, integer, oneOf, options, text, where } from '../../options/check.ts'
import { defined } from '../../session/defined.ts'

/** A moment: a date, milliseconds since 1970, or ISO text. */
export type Moment = Date | number | string

/** A span of time: from `since` on, before `until`. */
export interface SpanOptions {
  /** From then on. Default: from the beginning. */
  since?: Moment
  /** Before then. Default: without end. */
  until?: Moment
}

/** How much of a list a page has, and where it begins. */
export interface PageOptions {
  /** Items a page, 1 to 1,000. Default 50. */
  limit?: number
  /** Of the page before. */
  cursor?: string | undefined
}

/** Which sessions: by when they were created. */
export interface SessionListOptions extends SpanOptions, PageOptions {
  /** In one of these states. Default: any. */
  status?: SessionStatus | SessionStatus[]
  /** Only sessions that are paused, or only those that are not. Default: both. */
  paused?: boolean
  /** With this agent. Default: any. */
  agent?: string
  /** Sessions that have this tag. */
  tag?: string
  /** Sessions that have all of these tags. */
  tags?: string[]
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Of a list that belongs to one session. */
export interface SessionRowsOptions extends PageOptions {
  /** The session's id. Required. */
  session: string
}

/** Which errors. */
export interface ErrorListOptions extends SpanOptions, PageOptions {
  /** Id of one session. Default: all. */
  session?: string
  /** `model`, `tool:<name>`, `run` or `checkpoint`. */
  context?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which open sessions an overview has. */
export interface OverviewOptions {
  /** Sessions that are listed, 1 to 1,000. Default 50. */
  limit?: number
  /** Of this agent. Default: all. */
  agent?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which failures are counted. */
export interface FailureOptions extends SpanOptions {
  /** From then on. Default: the last 24 hours. */
  since?: Moment
  /** Of this agent. Default: all. */
  agent?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which tool calls: by when the model asked for them. */
export interface ToolCallListOptions extends SpanOptions, PageOptions {
  /** Id of one session. Default: all. */
  session?: string
  /** In one of these states. Default: any. */
  status?: ToolCallStatus | ToolCallStatus[]
  /** Of this tool. Default: any. */
  tool?: string
  /** With this idempotency key: the call that had the effect, and the calls that were answered from it. Default: any. */
  key?: string
  /** Whose effect has this id in the outside world, such as a refund's id. Default: any. */
  effectId?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which calls that wait for somebody. */
export interface PendingListOptions extends PageOptions {
  /** For what they wait. Default: anything. */
  kind?: PendingKind | PendingKind[]
  /** Of sessions with this agent. Default: any. */
  agent?: string
  /** Of sessions that have this tag. */
  tag?: string
  /** Of sessions that have all of these tags. */
  tags?: string[]
  /** Id of one session. Default: all. */
  session?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which usage, and by what it is added up. */
export interface UsageOptions extends SpanOptions, PageOptions {
  /** What it is added up by. Required. */
  by: UsageBy
  /** Id of one session. Default: all. */
  session?: string
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** Which events of the feed. */
export interface FeedOptions {
  /** Default: all. */
  types?: EventType[]
  /** Of sessions with this agent only. */
  agent?: string
  /** The cursor of the last event that was dealt with. Default: from the first event that the store has. */
  after?: string | undefined
  /** Goes on with events as they are stored, until `signal` aborts. Default false: ends when there are no more. */
  follow?: boolean
  /** Ends the feed. Default: none. */
  signal?: AbortSignal
  /** Of sessions whose id begins with this, such as the ids of one tenant. Default: any. */
  idPrefix?: string
}

/** What a session's status can be. */
export const STATUSES = ['idle', 'running', 'waiting', 'error', 'closed'] as const satisfies SessionStatus[]
/** What may have become of a tool call. */
export const CALL_STATUSES = [
  'issued',
  'running',
  'awaiting_approval',
  'awaiting_answer',
  'completed',
  'failed',
  'denied',
  'unknown',
  'replayed',
  'skipped',
] as const satisfies ToolCallStatus[]
/** For what a call may wait. */
export const PENDING_KINDS = ['approval', 'client', 'unknown'] as const satisfies PendingKind[]
/** What usage is summed by. */
export const SUMS = ['agent', 'day', 'model', 'session'] as const satisfies UsageBy[]
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 1_000
const DAY_MS = 86_400_000

const someText = text()
/** Postgres knows no year before -4713, and its ISO text none beyond four digits. */
const moment = z
  .unknown()
  .transform(dateOf)
  .pipe(
    where<Date>(
      (date) => date instanceof Date && date.getTime() >= 0 && date.getUTCFullYear() < 10_000,
      'a Date, milliseconds since 1970, or ISO text such as 2026-11-21T12:00:00Z',
    ),
  )
/** Options that filter by tags. */
export const TAGS = {
  tag: someText.optional(),
  tags: where<string[]>(
    (value) => Array.isArray(value) && value.length > 0 && value.every(isText),
    'a list of texts that are not empty',
  ).optional(),
}
/** Options of a span of time. */
export const SPAN = { since: moment.optional(), until: moment.optional() }
const PAGE = { limit: integer(1, MAX_LIMIT).optional(), cursor: someText.optional() }

const flag = where<boolean>((value) => typeof value === 'boolean', 'true or false').optional()
const SESSIONS = options({
  idPrefix: someText.optional(),
  status: someOf(STATUSES).optional(),
  paused: flag,
  agent: someText.optional(),
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
const PENDING = options({
  idPrefix: someText.optional(),
  kind: someOf(PENDING_KINDS).optional(),
  agent: someText.optional(),
  ...TAGS,
  session: someText.optional(),
  ...PAGE,
})
const USAGE = options({ idPrefix: someText.optional(), by: oneOf(...SUMS), session: someText.optional(), ...SPAN, ...PAGE })
const FEED = options({
  idPrefix: someText.optional(),
  types: someOf(EVENT_TYPES).optional(),
  agent: someText.optional(),
  after: someText.optional(),
  follow: flag,
  signal: where<AbortSignal>((value) => value instanceof AbortSignal, 'an AbortSignal').optional(),
})

/** Which sessions. @throws InvalidOption `invalid_option`; so do all of these. */
export function sessionFilter(given: unknown = {}): SessionFilter {
  const { since, until, status, paused, agent, tag, tags, idPrefix } = checkOptions(SESSIONS, given)
  return defined({ idPrefix, since, until, status, paused, agent, tags: tagsOf(tag, tags) })
}

/** The session that a list is of. */
export function sessionOption(given: unknown = {}): string {
  return checkOptions(SESSION_ROWS, given).session
}

/** Which errors. */
export function errorFilter(given: unknown = {}): ErrorFilter {
  const { since, until, session, context, idPrefix } = checkOptions(ERRORS, given)
  return defined({ idPrefix, since, until, session, context })
}

/** Which open sessions. */
export function overviewFilter(given: unknown = {}): OverviewFilter {
  const { limit = DEFAULT_LIMIT, agent, idPrefix } = checkOptions(OVERVIEW, given)
  return { limit, ...defined({ idPrefix, agent }) }
}

/** Which failures. */
export function failureFilter(given: unknown = {}): FailureFilter {
  const { since = new Date(Date.now() - DAY_MS), until, agent, idPrefix } = checkOptions(FAILURES, given)
  return { since, ...defined({ idPrefix, until, agent }) }
}

/** Which tool calls. */
export function toolCallFilter(given: unknown = {}): ToolCallFilter {
  const { since, until, session, status, tool, key, effectId, idPrefix } = checkOptions(TOOL_CALLS, given)
  return defined({ idPrefix, since, until, session, status, tool, key, effectId })
}

/** Which calls that wait. */
export function pendingFilter(given: unknown = {}): PendingFilter {
  const { kind, agent, tag, tags, session, idPrefix } = checkOptions(PENDING, given)
  return defined({ idPrefix, kind: kind && [...new Set(kind)].sort(), agent, tags: tagsOf(tag, tags), session })
}

/** Which usage. */
export function usageFilter(given: unknown = {}): UsageFilter {
  const { by, since, until, session, idPrefix } = checkOptions(USAGE, given)
  return { by, ...defined({ idPrefix, since, until, session }) }
}

/** Which events of the feed. */
export function feedOptions(given: unknown = {}): FeedOptions {
  return defined(checkOptions(FEED, given))
}

/** Where a page begins, and how many items it has; of options that were checked. */
export function paging({ limit = DEFAULT_LIMIT, cursor }: PageOptions = {}): { limit: number; cursor: string | undefined } {
  return { limit, cursor }
}

/** The same as the store takes it. */
export function pagingAt(limit: number, after: Paging['after']): Paging {
  return { limit, ...(after && { after }) }
}

/** All tags that a filter names. */
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

/** One of these, or some of them as a list. */
function someOf<T extends string>(among: readonly T[]) {
  const listOf = (value: unknown): unknown[] => (Array.isArray(value) ? value : [value])
  return where<T | T[]>(
    (value) => listOf(value).length > 0 && listOf(value).every((one) => among.includes(one as T)),
    `one or some of ${among.join(', ')}`,
  ).transform((value) => listOf(value) as T[])
}
