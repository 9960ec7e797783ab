// A session at an earlier event: its state then, and the event that began its newest run.
import type { SessionState } from '../../session/state.ts'
import { numberIn, textIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { findState } from './states.ts'

/** See `Store.stateAt`. */
export async function readStateAt(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  seq: number,
): Promise<SessionState | null> {
  const key = safeKey(sessionId)
  const [row] = await database.query(
    `select event.digest, coalesce(sessions.forked_seq, 0) as forked_seq from ${schema.table('events')} event
     join ${schema.table('sessions')} sessions on sessions.session_id = event.session_id
     where event.session_id = $1 and event.seq = $2`,
    [key, seq],
  )
  if (!row) return null
  const of = { sessionId, key, head: { seq, digest: textIn(row, 'digest') }, forkedSeq: Number(row.forked_seq) }
  return (await findState(database, schema, of)).state ?? null
}

/** See `Store.newestRun`. */
export async function readNewestRun(database: Queryable, schema: PostgresSchema, sessionId: string, upTo: number): Promise<number | null> {
  const [row] = await database.query(
    `select seq from ${schema.table('events')} where session_id = $1 and seq <= $2 and type = 'run_started' order by seq desc limit 1`,
    [safeKey(sessionId), upTo],
  )
  return row ? numberIn(row, 'seq') : null
}

/** See `Store.checkpointSeq`. */
export async function readCheckpointSeq(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  version: number,
): Promise<number | null> {
  const [row] = await database.query(`select seq from ${schema.table('checkpoints')} where session_id = $1 and version = $2::bigint`, [
    safeKey(sessionId),
    version,
  ])
  return row ? numberIn(row, 'seq') : null
}
