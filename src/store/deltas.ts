// The text that models are streaming: written in one statement for all sessions of a worker, read in one for all watchers that read at
// about the same time, and deleted once the answers are recorded.
import { CALL_ENDS, type DeltaPart, type DeltaStream, type DeltaCursor, type ModelDelta } from '../session/watching/deltas.ts'
import { numberIn, jsonIn, textIn } from './postgres/columns.ts'
import type { Queryable, TextRow } from './postgres/database.ts'
import { payloadsOf, deltasTopicOf } from './postgres/notifications.ts'
import { safeKey } from './postgres/sanitise.ts'
import type { PostgresSchema } from './postgres/schema.ts'
import type { SessionStatus } from '../session/events.ts'

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

/** The live state of a session at one moment. */
export interface LiveSession {
  /** How far its events are stored; 0 if none of them are there, because they were pruned, erased or never restored. */
  head: number
  /** Null if the store does not know the session. */
  status: SessionStatus | null
  /** Parts of streams after the cursor, in order. */
  parts: DeltaPart[]
  /** Whether there may be more parts. */
  more: boolean
}

/** Maximum parts per read; the next read returns more. */
const MAX_PARTS = 500

interface Look {
  sessionId: string
  cursor: DeltaCursor
  resolve(live: LiveSession): void
  reject(error: unknown): void
}

/** See `Store.live`. Reads that arrive while a statement runs wait for the next one. */
export function liveReader(database: Queryable, schema: PostgresSchema): (sessionId: string, cursor: DeltaCursor) => Promise<LiveSession> {
  let waiting: Look[] = []
  let isReading = false

  async function read(): Promise<void> {
    while (waiting.length > 0) {
      const looks = waiting
      waiting = []
      try {
        const found = await readLive(database, schema, looks)
        for (const [at, look] of looks.entries()) look.resolve(found[at] ?? { head: 0, status: null, parts: [], more: false })
      } catch (error) {
        for (const look of looks) look.reject(error)
      }
    }
    isReading = false
  }

  return (sessionId, cursor) =>
    new Promise((resolve, reject) => {
      waiting.push({ sessionId, cursor, resolve, reject })
      if (isReading) return
      isReading = true
      // A notification wakes many watchers one after another.
      setImmediate(() => void read())
    })
}

async function readLive(database: Queryable, schema: PostgresSchema, looks: readonly Look[]): Promise<LiveSession[]> {
  const rows = await database.query(
    `select look.n, look.session_id, session.status,
            case when session.flushed_seq > session.origin_seq and session.erased_at is null
              and (session.pruned_at < session.updated_at) is not false then session.flushed_seq else 0 end as head,
            part.seq, part.attempt, part.begun_at, part.until, part.from_position, part.run, part.turn, part.pieces
     from unnest($1::text[], $2::bigint[], $3::integer[], $4::bigint[], $5::integer[]) with ordinality
       as look (session_id, seq, attempt, begun_at, until, n)
     left join ${schema.table('sessions')} as session on session.session_id = look.session_id
     left join lateral (
       select seq, attempt, begun_at, until, from_position, run, turn, pieces from ${schema.table('deltas')} as d
       where d.session_id = look.session_id and (d.seq, d.attempt, d.begun_at, d.until) > (look.seq, look.attempt, look.begun_at, look.until)
       order by seq, attempt, begun_at, until limit ${MAX_PARTS}
     ) as part on true
     order by look.n, part.seq, part.attempt, part.begun_at, part.until`,
    [
      looks.map(({ sessionId }) => safeKey(sessionId)),
      looks.map(({ cursor }) => cursor.seq),
      looks.map(({ cursor }) => cursor.attempt),
      looks.map(({ cursor }) => cursor.begunAt),
      looks.map(({ cursor }) => cursor.until),
    ],
  )
  const found: LiveSession[] = []
  for (const row of rows) {
    const at = Number(row.n) - 1
    const live = (found[at] ??= {
      head: numberIn(row, 'head') ?? 0,
      status: (row.status ?? null) as SessionStatus | null,
      parts: [],
      more: false,
    })
    if (row.seq != null) live.more = live.parts.push(partOf(row)) === MAX_PARTS
  }
  return found
}

function partOf(row: TextRow): DeltaPart {
  return {
    sessionId: textIn(row, 'session_id'),
    seq: Number(row.seq),
    attempt: Number(row.attempt),
    begunAt: Number(row.begun_at),
    until: Number(row.until),
    from: Number(row.from_position),
    run: Number(row.run),
    turn: Number(row.turn),
    pieces: jsonIn(row, 'pieces') as unknown as ModelDelta[],
  }
}

/** See `Store.lastCallEnd`. */
export async function lastCallEnd(database: Queryable, schema: PostgresSchema, sessionId: string, upTo: number): Promise<number> {
  const [row] = await database.query(
    `select seq from ${schema.table('events')} where session_id = $1 and seq <= $2 and type = any($3::text[]) order by seq desc limit 1`,
    [safeKey(sessionId), upTo, [...CALL_ENDS]],
  )
  return row ? Number(textIn(row, 'seq')) : 0
}
