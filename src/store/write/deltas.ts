// The text that models are streaming: written in one statement for all sessions of a worker, and deleted once the answers are recorded.
import { CALL_ENDS, type DeltaPart, type DeltaStream } from '../../session/watching/deltas.ts'
import { numberIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import { payloadsOf, deltasTopicOf } from '../postgres/notifier.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** The outcome of tidying streams. */
export interface TidiedDeltas {
  /** Indexes of `ended` streams whose end the events record: their parts are deleted. */
  deleted: Set<number>
  /** Indexes of `unfinished` streams whose beginning was lost, because Postgres crashed. */
  emptied: Set<number>
}

/**
 * See `Store.saveDeltas`. The notification is part of the statement: a write to an unlogged table does not wait for the disk, so the
 * commit holds the notification lock for no longer than a separate notification would.
 */
export async function saveDeltas(database: Queryable, schema: PostgresSchema, parts: readonly DeltaPart[]): Promise<void> {
  await database.query(
    `with saved as (
       insert into ${schema.table('deltas')} as old (session_id, seq, attempt, begun_at, until, from_position, run, turn, pieces)
       select session_id, seq, attempt, begun_at, until, from_position, run, turn, pieces::json
       from unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[], $5::integer[], $6::integer[], $7::integer[], $8::integer[], $9::text[])
         as part (session_id, seq, attempt, begun_at, until, from_position, run, turn, pieces)
       where not exists (select from ${schema.table('sessions')} as s where s.session_id = part.session_id and s.erased_at is not null)
       on conflict (session_id, seq, attempt, begun_at, until)
         do update set from_position = excluded.from_position, pieces = excluded.pieces where excluded.from_position < old.from_position
     )
     select pg_notify($10, payload) from unnest($11::text[]) as payload`,
    [
      ...streamColumns(parts),
      parts.map(({ until }) => until),
      parts.map(({ from }) => from),
      parts.map(({ run }) => run),
      parts.map(({ turn }) => turn),
      parts.map(({ pieces }) => JSON.stringify(pieces)),
      schema.channel,
      payloadsOf(new Set(parts.map(({ sessionId }) => deltasTopicOf(safeKey(sessionId))))),
    ],
  )
}

/** See `Store.tidyDeltas`. */
export async function tidyDeltas(
  database: Queryable,
  schema: PostgresSchema,
  { ended, unfinished }: { ended: readonly DeltaStream[]; unfinished: readonly DeltaStream[] },
): Promise<TidiedDeltas> {
  const stream = 'session_id, seq, attempt, begun_at'
  const rows = await database.query(
    `with ended as (
       select * from unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[]) with ordinality as stream (${stream}, n)
       where ${isEnded(schema, 'stream')}
     ), deleted as (
       delete from ${schema.table('deltas')} as old using ended
       where old.session_id = ended.session_id and old.seq = ended.seq and old.attempt = ended.attempt and old.begun_at = ended.begun_at
     )
     select n, 'ended' as what from ended
     union all
     select n, 'emptied' from unnest($5::text[], $6::bigint[], $7::integer[], $8::bigint[]) with ordinality as going (${stream}, n)
     where not exists (
       select 1 from ${schema.table('deltas')} as first
       where (first.session_id, first.seq, first.attempt, first.begun_at) = (going.session_id, going.seq, going.attempt, going.begun_at)
         and first.from_position = 0
     )`,
    [...streamColumns(ended), ...streamColumns(unfinished)],
  )
  const indexes = (what: string): Set<number> =>
    new Set(rows.filter((row) => row.what === what).map((row) => (numberIn(row, 'n') ?? 0) - 1))
  return { deleted: indexes('ended'), emptied: indexes('emptied') }
}

/** See `Store.sweepDeltas`. */
export async function sweepDeltas(database: Queryable, schema: PostgresSchema): Promise<number> {
  const rows = await database.query(`delete from ${schema.table('deltas')} as stream where ${isEnded(schema, 'stream')} returning 1 as one`)
  return rows.length
}

/** SQL for whether a stream's call has ended, or its session is erased or unknown. */
function isEnded(schema: PostgresSchema, stream: string): string {
  const events = schema.table('events')
  const ends = CALL_ENDS.map((type) => `'${type}'`).join(', ')
  return `(
    exists (select 1 from ${events} as e where e.session_id = ${stream}.session_id and e.seq > ${stream}.seq and e.type in (${ends}))
    or not exists (select 1 from ${schema.table('sessions')} as s where s.session_id = ${stream}.session_id and s.erased_at is null)
  )`
}

function streamColumns(streams: readonly DeltaStream[]): unknown[] {
  return [
    streams.map(({ sessionId }) => safeKey(sessionId)),
    streams.map(({ seq }) => seq),
    streams.map(({ attempt }) => attempt),
    streams.map(({ begunAt }) => begunAt),
  ]
}
