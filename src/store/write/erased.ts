// What was erased: what it sends late must not come back.
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** Whether an execution, or the chain that it began, was erased: what it sends late must not come back, even if the session began anew. */
export async function wasErased(tx: Queryable, schema: PostgresSchema, key: string, executionId: string): Promise<boolean> {
  const found = await tx.query(
    `select from ${schema.table('audit')} where action = 'erase' and session_id = $1
       and (details->'executions' ? $2 or details->>'epoch' = $2) limit 1`,
    [key, safeKey(executionId)],
  )
  return found.length > 0
}
