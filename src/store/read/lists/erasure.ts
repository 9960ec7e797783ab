// When a session was erased, and on whose request.
import { dateIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'

/** The newest erasure of a session. `by` and `reason` are null if its audit row is gone, or has none. */
export interface Erasure {
  at: Date
  by: string | null
  reason: string | null
}

/** See `Lists.erasure`. */
export async function findErasure(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<Erasure | null> {
  const [row] = await database.query(
    `select (extract(epoch from erased_at) * 1000)::bigint as at, audit.by, audit.details ->> 'reason' as reason
     from ${schema.table('sessions')} sessions left join lateral (
       select by, details from ${schema.table('audit')} audit
       where audit.session_id = sessions.session_id and action = 'erase' order by at desc limit 1
     ) audit on true where sessions.session_id = $1 and erased_at is not null`,
    [safeKey(sessionId)],
  )
  return row ? { at: dateIn(row, 'at'), by: row.by ?? null, reason: row.reason ?? null } : null
}
