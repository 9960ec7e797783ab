// The live state of sessions, for watchers: one statement serves all watchers that read at about the same time.
import type { DeltaCursor, DeltaPart, ModelDelta } from '../../session/watching/deltas.ts'
import { CALL_ENDS } from '../../session/watching/deltas.ts'
import type { SessionStatus } from '../../session/events.ts'
import { jsonIn, numberIn, textIn } from '../postgres/columns.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

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
