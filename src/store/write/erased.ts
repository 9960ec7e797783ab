// Recognises erased executions, whose late writes must not restore their content.
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/**
 * Whether an execution, or the chain that it began, was erased: its late writes must not restore content, even if the session has started
 * over.
 */
export async function wasErased(tx: Queryable, schema: PostgresSchema, key: string, executionId: string): Promise<boolean> {
  const found = await tx.query(
    `select from ${schema.table('audit')} where action = 'erase' and session_id = $1
       and (details->'executions' ? $2 or details->>'epoch' = $2) limit 1`,
    [key, safeKey(executionId)],
  )
  return found.length > 0
}
