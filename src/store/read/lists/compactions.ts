// The compactions of a session, read from its events.
import type { EventOf } from '../../../session/events.ts'
import { dateIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import type { ListedCompaction } from '../../listed.ts'

/** See `Lists.compactions`. */
export async function readCompactions(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<ListedCompaction[]> {
  const rows = await database.query(
    `select ${ms('at')}, json from ${schema.table('events')} where session_id = $1 and type = 'compacted' order by seq`,
    [safeKey(sessionId)],
  )
  return rows.map((row) => {
    const event = JSON.parse(textIn(row, 'json')) as EventOf<'compacted'>
    const { seq, run, turn, upToSeq, summary, messages, tokens, window, forced = false, resultBytes = null, model = null } = event
    return { seq, run, turn, at: dateIn(row, 'at'), upToSeq, summary, messages, tokens, window, forced, resultBytes, model }
  })
}
