// Grants an application's role the necessary rights on the Postgres schema, so that workers need not own the tables.
import type { Queryable } from './database.ts'
import { StoreError } from '../errors.ts'
import type { PostgresSchema } from './schema.ts'

/** Quotes a name, which may be any but the empty one. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Grants the role what pawl's workers and clients need, including tables of later migrations. @throws StoreError `role_not_found`. */
export async function grantTo(tx: Queryable, schema: PostgresSchema, role: string): Promise<void> {
  const [found] = await tx.query('select 1 as found from pg_roles where rolname = $1', [role])
  if (!found) {
    throw new StoreError('role_not_found', `Postgres has no role ${JSON.stringify(role)}: create it, then run the command again.`)
  }
  const to = quoted(role)
  const tables = 'select, insert, update, delete'
  const sequences = 'usage, select'
  const grants = [
    `grant usage on schema {schema} to ${to}`,
    `grant ${tables} on all tables in schema {schema} to ${to}`,
    `grant ${sequences} on all sequences in schema {schema} to ${to}`,
    `alter default privileges in schema {schema} grant ${tables} on tables to ${to}`,
    `alter default privileges in schema {schema} grant ${sequences} on sequences to ${to}`,
    // Only the owner may change the list of migrations, and move the sessions to another namespace.
    `revoke insert, update, delete on {schema}.migrations from ${to}`,
    `revoke update, delete on {schema}.namespace from ${to}`,
  ]
  for (const grant of grants) await tx.query(schema.fill(grant))
}
