// Keeps what is erased from coming back: by late writes of erased executions, and by writes beside an erasure.
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

const keyOf = ({ name }: PostgresSchema): string => `hashtextextended('pawl:erasure:${name}:' || $1, 0)`

/**
 * Begins a transaction that writes rows of a session without locking the session's row, which it may not have yet. Until its end, the session
 * is not erased: an erasure that is in progress ends first, and then shows in `erased_at`.
 */
export async function excludeErasure(tx: Queryable, schema: PostgresSchema, key: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock_shared(${keyOf(schema)})`, [key])
}

/** Begins an erasure: waits for such transactions in progress; new ones wait for its end. */
export async function beginErasure(tx: Queryable, schema: PostgresSchema, key: string): Promise<void> {
  await tx.query(`select pg_advisory_xact_lock(${keyOf(schema)})`, [key])
}
