// The events of all sessions in the order in which their transactions began: a reader that continues from its place misses none.
import type { EventType, SessionEvent } from '../../../session/events.ts'
import { textIn } from '../../postgres/columns.ts'
import { type FeedHoldUp, readHeldUp, readHorizon } from '../../postgres/commit-order.ts'
import type { Database, Queryable, TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, keyIn } from './page.ts'
import type { FeedItem } from '../../listed.ts'
import type { Key } from '../../filters.ts'

/** Maximum flushes, events and bytes of JSON of one page (at least one event). */
const COMMITS = 200
const EVENTS = 500
const BYTES = 4_000_000

export interface FeedFilter {
  types?: EventType[]
  agent?: string
  /** Only sessions whose id begins with this. */
  idPrefix?: string
  /** Approximate maximum bytes of JSON of a page, but at least one event. Default 4,000,000. */
  bytes?: number
}

/** Events with their places; `next` also covers events that the filter excluded. */
export interface FeedRows {
  items: { item: FeedItem; place: Key }[]
  /** Where to continue; the requested place if there is nothing new. */
  next: Key
  /** Whether more can be read immediately. */
  more: boolean
}

/** What readers of the feed share. */
export interface FeedNeeds {
  database: Pick<Database, 'sequence'>
  schema: PostgresSchema
  /** Called at the end of the feed with what holds up further events. */
  report?: ((heldUp: FeedHoldUp | null) => void) | undefined
}

/** The place before the first event. */
const BEGINNING: Key = ['0', '', 0]

/**
 * See `Lists.feed`. A place is `[transaction, session, seq]`. Transactions get numbers when they begin and become visible when they end.
 * This therefore reads only transactions below the horizon: none can appear later before a place that was passed.
 */
export async function readFeed({ database, schema, report }: FeedNeeds, filter: FeedFilter, after: Key | undefined): Promise<FeedRows> {
  const from = keyIn({ limit: 0, ...(after && { after }) }, ['text', 'text', 'number']) ?? BEGINNING
  // On one connection, because another one may lead to a replica that lags behind.
  return database.sequence(async (on) => {
    const page = await pageUpTo(on, schema, filter, from, await readHorizon(on, schema))
    if (report && !page.more) report(await readHeldUp(on, schema))
    return page
  })
}

async function pageUpTo(on: Queryable, schema: PostgresSchema, filter: FeedFilter, from: Key, horizon: string): Promise<FeedRows> {
  const found = await commitsOf(on, schema, filter, from, horizon)
  const isSparse = filter.types || filter.agent !== undefined
  const commits = isSparse ? found : enough(found)
  const last = commits.at(-1)
  const hasAll = commits.length === found.length && found.length < COMMITS
  const end = hasAll ? endOf(filter, from, horizon) : undefined
  if (!last) return { items: [], next: end ?? from, more: false }
  const rows = await eventsOf(on, schema, filter, commits, from)
  const isCut = rows.length > EVENTS || rows.at(-1)?.is_last === 'false'
  const items = rows.slice(0, EVENTS).map((row) => ({ item: itemOf(row), place: keyAt(row, 'seq') }))
  const next = isCut ? (items.at(-1)?.place ?? from) : (end ?? keyAt(last, 'last_seq'))
  return { items, next, more: isCut || !hasAll }
}

/** Flushes after the place and below the horizon, in order. */
function commitsOf(on: Queryable, schema: PostgresSchema, { idPrefix }: FeedFilter, from: Key, horizon: string): Promise<TextRow[]> {
  const values: unknown[] = [...from, horizon]
  const value = (one: unknown): string => `$${values.push(one)}`
  const where = [
    'txid >= $1::xid8 and (txid > $1::xid8 or (session_id, last_seq) > ($2::text, $3::bigint)) and txid < $4::xid8',
    ...begins(value, 'session_id', idPrefix),
  ]
  return on.query(
    `select txid, session_id, first_seq, last_seq from ${schema.table('commits')}
     where ${where.join(' and ')} order by txid, session_id, first_seq limit ${COMMITS}`,
    values,
  )
}

/** Where to continue if no more flushes match the prefix: a tenant's reader does not pass the other tenants' flushes again. */
function endOf({ idPrefix }: FeedFilter, from: Key, horizon: string): Key | undefined {
  const isFurther = idPrefix !== undefined && BigInt(horizon) > BigInt(String(from[0]))
  return isFurther ? [horizon, '', 0] : undefined
}

/** The first flushes: as many as one page needs. */
function enough(commits: readonly TextRow[]): readonly TextRow[] {
  let events = 0
  const last = commits.findIndex(({ first_seq, last_seq }) => {
    events += Number(last_seq) - Number(first_seq) + 1
    return events > EVENTS
  })
  return last < 0 ? commits : commits.slice(0, last + 1)
}

/**
 * Events of these flushes after the place, without inherited ones. `is_last`: of all that match the filter. The `offset 0` makes Postgres
 * look up each flush by its range: otherwise, it may read all events of the session for each of its flushes.
 */
function eventsOf(
  on: Queryable,
  schema: PostgresSchema,
  { types, agent, bytes = BYTES }: FeedFilter,
  commits: readonly TextRow[],
  from: Key,
): Promise<TextRow[]> {
  return on.query(
    `select txid, session_id, seq, agent, json, (nr = total)::text as is_last from (
       select txid, session_id, seq, agent, json, row_number() over place as nr, count(*) over () as total,
         sum(octet_length(json)) over place - octet_length(json) as bytes_before
       from (
         select commits.txid, event.session_id, event.seq, sessions.agent, event.json
         from json_to_recordset($1::json) as commits(txid xid8, session_id text, first_seq bigint, last_seq bigint)
         join ${schema.table('sessions')} sessions on sessions.session_id = commits.session_id
         join lateral (
           select * from ${schema.table('events')} of_flush where of_flush.session_id = commits.session_id
             and of_flush.seq between commits.first_seq and commits.last_seq offset 0
         ) event on event.seq > coalesce(sessions.forked_seq, 0)
         where (commits.txid > $2::xid8 or (event.session_id, event.seq) > ($3::text, $4::bigint))
           and ($5::text[] is null or event.type = any($5::text[])) and ($6::text is null or sessions.agent = $6::text)
         order by commits.txid, event.session_id, event.seq limit ${EVENTS + 1}
       ) as found
       window place as (order by txid, session_id, seq)
     ) as counted where bytes_before < $7::bigint order by nr`,
    [JSON.stringify(commits), ...from, types ?? null, agent === undefined ? null : safeKey(agent), bytes],
  )
}

function itemOf(row: TextRow): FeedItem {
  return { sessionId: textIn(row, 'session_id'), agent: textIn(row, 'agent'), event: JSON.parse(textIn(row, 'json')) as SessionEvent }
}

function keyAt(row: TextRow, seq: 'seq' | 'last_seq'): Key {
  return [textIn(row, 'txid'), textIn(row, 'session_id'), Number(row[seq])]
}
