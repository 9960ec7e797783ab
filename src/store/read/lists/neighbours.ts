// The stored ids next to an id, and the names of agents, for a person who has mistyped one.
import { textIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'

const EACH_WAY = 20
const AGENTS = 100

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

/** See `Lists.agentNames`. Skips from name to name in the index, however many sessions each agent has. */
export async function findAgentNames(database: Queryable, schema: PostgresSchema): Promise<string[]> {
  const sessions = schema.table('sessions')
  const rows = await database.query(
    `with recursive names as (
       (select agent from ${sessions} order by agent limit 1)
       union all
       select (select agent from ${sessions} where agent > names.agent order by agent limit 1) from names where names.agent is not null
     ) select agent from names where agent is not null limit ${AGENTS}`,
  )
  return rows.map((row) => textIn(row, 'agent'))
}
