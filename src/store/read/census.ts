// Counts of open sessions and of waiting work over all sessions, for metrics.
import { textIn } from '../postgres/columns.ts'
import { readHeldUp } from '../postgres/commit-order.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

export interface CensusCount {
  agent: string
  /** The status or the code that is counted. */
  what: string
  count: number
}

/** Sessions in one kind of error. */
export interface CountedErrors extends CensusCount {
  /** `nothing`: they leave the error automatically. */
  needs: 'person' | 'nothing'
  /** How long the longest of them has been in the error, in milliseconds. */
  oldestMs: number
}

/** Sessions that are paused. */
export interface CountedPauses extends CensusCount {
  /** How long the longest of them has been paused, in milliseconds. */
  oldestMs: number
}

/** Counts of open sessions and of waiting work. */
export interface Census {
  /** Sessions that are not closed, by status. */
  sessions: CensusCount[]
  /** Sessions in error, by code and by whether they need a person. */
  errors: CountedErrors[]
  /** Paused sessions, by what continues them: `unpause`, or `raise` if pawl paused them because of their budget. */
  paused: CountedPauses[]
  /** Tool calls that wait for a person or a client: `approval`, `answer`, or `resolution` of an unknown outcome. */
  calls: CensusCount[]
  /** Messages that are not in a turn yet. */
  messages: CensusCount[]
  /** Flushes whose spans are not exported yet, at most 10,000; undefined if no traces are exported. */
  unexported?: number
  /** Milliseconds for which stored events have been missing from the feed; 0 if they appear within seconds. */
  feedDelayMs: number
}

/** Limits the count, so that it stays cheap even if a collector is away for days. */
const MAX_COUNTED = 10_000

/** See `Store.census`. */
export async function readCensus(database: Queryable, schema: PostgresSchema): Promise<Census> {
  const { table } = schema
  const rows = await database.query(
    `select 'sessions' as kind, agent, status as what, count(*) as count, null as needs, null as oldest from ${table('sessions')}
       where status in ('idle', 'running', 'waiting', 'error') group by 2, 3
     union all
     select 'errors', agent, error_code, count(*),
         case when error_strategy = 'automatic' or next_attempt_at is not null then 'nothing' else 'person' end as needs,
         greatest(0, extract(epoch from now()) * 1000 - min((error ->> 'at')::double precision))::bigint
       from ${table('sessions')} where status = 'error' and error_code is not null group by 2, 3, 5
     union all
     select 'paused', agent, case when paused #> '{raise,0}' is null then 'unpause' else 'raise' end, count(*), null,
         greatest(0, extract(epoch from now()) * 1000 - min((paused ->> 'at')::double precision))::bigint
       from ${table('sessions')} where paused is not null and status <> 'closed' group by 2, 3
     union all
     select 'calls', agent, case status when 'awaiting_approval' then 'approval' when 'awaiting_answer' then 'answer' else 'resolution' end, count(*), null, null
       from ${table('tool_calls')} where status in ('awaiting_approval', 'awaiting_answer') or (status = 'unknown' and error ->> 'asked' = 'true')
       group by 2, 3
     union all
     select 'messages', agent, '', count(*), null, null from ${table('messages')} where kind = 'user' and turn is null group by 2
     union all
     select 'unexported', '', '', (select count(*) from (
         select 1 from ${table('commits')} commits where commits.txid >= (place ->> 0)::xid8
           and (commits.txid > (place ->> 0)::xid8 or (session_id, last_seq) > (place ->> 1, (place ->> 2)::bigint)) limit ${MAX_COUNTED}
       ) as later), null, null from ${table('consumers')} where name = 'traces'`,
    [],
  )
  const ofKind = (kind: string): TextRow[] => rows.filter((row) => row.kind === kind)
  const of = (kind: string): CensusCount[] => ofKind(kind).map(countedIn)
  const [unexported] = of('unexported')
  const heldUp = await readHeldUp(database, schema)
  return {
    sessions: of('sessions'),
    errors: ofKind('errors').map((row) => ({
      ...countedIn(row),
      needs: row.needs === 'nothing' ? 'nothing' : 'person',
      oldestMs: Number(row.oldest),
    })),
    paused: ofKind('paused').map((row) => ({ ...countedIn(row), oldestMs: Number(row.oldest) })),
    calls: of('calls'),
    messages: of('messages'),
    ...(unexported && { unexported: unexported.count }),
    feedDelayMs: heldUp?.forMs ?? 0,
  }
}

function countedIn(row: TextRow): CensusCount {
  return { agent: textIn(row, 'agent'), what: textIn(row, 'what'), count: Number(row.count) }
}
