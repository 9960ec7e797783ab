// Options of lists, checked where they come in: a misspelt one is refused, not left out.
import type { EventType, SessionStatus, ToolCallStatus } from '../../session/events.ts'
import type {
  ErrorFilter,
  Paging,
  PendingFilter,
  PendingKind,
  SessionFilter,
  Span,
  ToolCallFilter,
  UsageBy,
  UsageFilter,
} from '../../store/read/lists/index.ts'
import { InvalidOption } from '../errors.ts'
import { defined } from '../../session/defined.ts'

/** A moment: a date, milliseconds since 1970, or ISO text. */
export type Moment = Date | number | string

/** A span of time: from `since` on, before `until`. */
export interface SpanOptions {
  since?: Moment
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
  status?: SessionStatus | SessionStatus[]
  agent?: string
  /** Sessions that have this tag. */
  tag?: string
  /** Sessions that have all of these tags. */
  tags?: string[]
}

/** Of a list that belongs to one session. */
export interface SessionRowsOptions extends PageOptions {
  session: string
}

/** Which errors. */
export interface ErrorListOptions extends SpanOptions, PageOptions {
  session?: string
  /** `model`, `tool:<name>`, `run` or `checkpoint`. */
  context?: string
}

/** Which tool calls: by when the model asked for them. */
export interface ToolCallListOptions extends SpanOptions, PageOptions {
  session?: string
  status?: ToolCallStatus | ToolCallStatus[]
  tool?: string
}

/** Which calls that wait for somebody. */
export interface PendingListOptions extends PageOptions {
  kind?: PendingKind | PendingKind[]
  agent?: string
  /** Of sessions that have this tag. */
  tag?: string
  /** Of sessions that have all of these tags. */
  tags?: string[]
  session?: string
}

/** Which usage, and by what it is added up. */
export interface UsageOptions extends SpanOptions, PageOptions {
  by: UsageBy
  session?: string
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
  signal?: AbortSignal
}

const STATUSES = ['idle', 'running', 'waiting', 'error', 'closed'] as const satisfies SessionStatus[]
const CALL_STATUSES = [
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
/** A record, so that none is left out. */
const EVENT_TYPES: Record<EventType, true> = {
  session_started: true,
  session_resumed: true,
  message_received: true,
  message_rejected: true,
  run_started: true,
  turn_started: true,
  model_attempt_failed: true,
  model_completed: true,
  tool_issued: true,
  tool_attempt_failed: true,
  tool_completed: true,
  tool_failed: true,
  tool_unknown: true,
  tool_resolved: true,
  tool_progress: true,
  milestone_reached: true,
  approval_requested: true,
  approval_decided: true,
  answer_requested: true,
  answer_received: true,
  checkpoint_made: true,
  rolled_back: true,
  forked: true,
  run_completed: true,
  run_interrupted: true,
  error_entered: true,
  recovery_started: true,
  recovery_ended: true,
  session_closed: true,
}
const PENDING_KINDS = ['approval', 'client', 'unknown'] as const satisfies PendingKind[]
const SUMS = ['agent', 'day', 'model', 'session'] as const satisfies UsageBy[]
const PAGE = ['limit', 'cursor']
const SPAN = ['since', 'until']
const DEFAULT_LIMIT = 50
const MAX_LIMIT = 1_000

type Given = Record<string, unknown>

/** @throws InvalidOption `invalid_option`; so do all of these. */
export function sessionFilter(options: unknown): SessionFilter {
  const given = known(options, ['status', 'agent', 'tag', 'tags', ...SPAN, ...PAGE])
  const status = someOf(given, 'status', STATUSES)
  const agent = text(given, 'agent')
  const tag = text(given, 'tag')
  const tags = [...(texts(given, 'tags') ?? []), ...(tag === undefined ? [] : [tag])]
  return { ...span(given), ...(status && { status }), ...defined({ agent }), ...(tags.length > 0 && { tags }) }
}

/** The session that a list is of. */
export function sessionOption(options: unknown): string {
  const given = known(options, ['session', ...PAGE])
  const session = text(given, 'session')
  if (session === undefined) throw refusal('session', given.session, 'the id of a session')
  return session
}

/** Which errors. */
export function errorFilter(options: unknown): ErrorFilter {
  const given = known(options, ['session', 'context', ...SPAN, ...PAGE])
  const session = text(given, 'session')
  const context = text(given, 'context')
  return { ...span(given), ...defined({ session, context }) }
}

/** Which tool calls. */
export function toolCallFilter(options: unknown): ToolCallFilter {
  const given = known(options, ['session', 'status', 'tool', ...SPAN, ...PAGE])
  const session = text(given, 'session')
  const status = someOf(given, 'status', CALL_STATUSES)
  const tool = text(given, 'tool')
  return { ...span(given), ...defined({ session }), ...(status && { status }), ...defined({ tool }) }
}

/** Which calls that wait. */
export function pendingFilter(options: unknown): PendingFilter {
  const given = known(options, ['kind', 'agent', 'tag', 'tags', 'session', ...PAGE])
  const kind = someOf(given, 'kind', PENDING_KINDS)
  const agent = text(given, 'agent')
  const tag = text(given, 'tag')
  const tags = [...(texts(given, 'tags') ?? []), ...(tag === undefined ? [] : [tag])]
  const session = text(given, 'session')
  return {
    ...(kind && { kind: [...new Set(kind)].sort() }),
    ...defined({ agent }),
    ...(tags.length > 0 && { tags }),
    ...defined({ session }),
  }
}

/** Which usage. */
export function usageFilter(options: unknown): UsageFilter {
  const given = known(options, ['by', 'session', ...SPAN, ...PAGE])
  const [by] = typeof given.by === 'string' ? (someOf(given, 'by', SUMS) ?? []) : []
  if (by === undefined) throw refusal('by', given.by, `one of ${SUMS.join(', ')}`)
  const session = text(given, 'session')
  return { by, ...span(given), ...defined({ session }) }
}

/** Which events of the feed. */
export function feedOptions(options: unknown): FeedOptions {
  const given = known(options, ['types', 'agent', 'after', 'follow', 'signal'])
  const types = someOf(given, 'types', Object.keys(EVENT_TYPES) as EventType[])
  const agent = text(given, 'agent')
  const after = text(given, 'after')
  const { follow, signal } = given
  if (follow !== undefined && typeof follow !== 'boolean') throw refusal('follow', follow, 'true or false')
  if (signal !== undefined && !(signal instanceof AbortSignal)) throw refusal('signal', signal, 'an AbortSignal')
  return {
    ...(types && { types }),
    ...defined({ agent, after, follow }),
    ...(signal && { signal }),
  }
}

/** Where a page begins, and how many items it has. */
export function paging(options: unknown): { limit: number; cursor: string | undefined } {
  const given = (options ?? {}) as Given
  const { limit = DEFAULT_LIMIT } = given
  if (typeof limit !== 'number' || !Number.isInteger(limit) || limit < 1 || limit > MAX_LIMIT) {
    throw refusal('limit', limit, `a number from 1 to ${MAX_LIMIT}`)
  }
  return { limit, cursor: text(given, 'cursor') }
}

/** The same as the store takes it. */
export function pagingAt(limit: number, after: Paging['after']): Paging {
  return { limit, ...(after && { after }) }
}

function known(options: unknown, names: readonly string[]): Given {
  const given = options ?? {}
  if (typeof given !== 'object') throw refusal('options', given, 'an object')
  const strange = Object.keys(given).find((name) => !names.includes(name))
  if (strange !== undefined) throw new InvalidOption('invalid_option', `There is no option ${strange}: use ${names.join(', ')}.`)
  return given as Given
}

function span(given: Given): Span {
  const since = moment(given, 'since')
  const until = moment(given, 'until')
  return { ...(since && { since }), ...(until && { until }) }
}

function moment(given: Given, name: string): Date | undefined {
  const value = given[name]
  if (value === undefined) return undefined
  const date = value instanceof Date || typeof value === 'number' || typeof value === 'string' ? new Date(value) : undefined
  // Postgres knows no year before -4713, and its ISO text none beyond four digits.
  if (date && date.getTime() >= 0 && date.getUTCFullYear() < 10_000) return date
  throw refusal(name, value, 'a Date, milliseconds since 1970, or ISO text such as 2026-11-21T12:00:00Z')
}

function text(given: Given, name: string): string | undefined {
  const value = given[name]
  if (value === undefined || (typeof value === 'string' && value !== '')) return value as string | undefined
  throw refusal(name, value, 'text that is not empty')
}

function texts(given: Given, name: string): string[] | undefined {
  const value = given[name]
  if (value === undefined) return undefined
  if (Array.isArray(value) && value.length > 0 && value.every((one) => typeof one === 'string' && one !== '')) return value as string[]
  throw refusal(name, value, 'a list of texts that are not empty')
}

function someOf<T extends string>(given: Given, name: string, among: readonly T[]): T[] | undefined {
  const value = given[name]
  if (value === undefined) return undefined
  const all: unknown[] = Array.isArray(value) ? value : [value]
  if (all.length > 0 && all.every((one) => among.includes(one as T))) return all as T[]
  throw refusal(name, value, `one or some of ${among.join(', ')}`)
}

function refusal(name: string, value: unknown, expected: string): InvalidOption {
  const shown = value instanceof Date ? String(value) : (JSON.stringify(value) ?? String(value))
  return new InvalidOption('invalid_option', `${name} is ${shown.slice(0, 80)}: give ${expected}.`)
}
