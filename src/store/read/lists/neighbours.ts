// The stored ids next to an id, for a person who has mistyped it.
import { textIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'

const EACH_WAY = 20

/** See `Lists.neighbours`. Both halves walk the primary key. */
export async function findNeighbours(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<string[]> {
  const sessions = schema.table('sessions')
  const rows = await database.query(
    `(select session_id from ${sessions} where session_id < $1 order by session_id desc limit ${EACH_WAY})
     union all (select session_id from ${sessions} where session_id > $1 order by session_id limit ${EACH_WAY})`,
    [safeKey(sessionId)],
  )
  return rows.map((row) => textIn(row, 'session_id'))
}
