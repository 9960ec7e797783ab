// Breaking migrations: a release that does not have one stops writing until it is replaced.
import { StoreError } from '../errors.ts'
import type { PostgresSchema } from './schema.ts'

/** A query for one row: `names` of the breaking migrations that are not in the parameter (null skips the check). */
export function breakingMigrations(schema: PostgresSchema, known: string): string {
  return `select string_agg(name, ', ') as names from ${schema.table('migrations')} where breaking and name <> all (${known}::text[])`
}

/** @throws StoreError `store_too_new` if there are any. */
export function refuseTooNew(schema: PostgresSchema, names: string | null | undefined): void {
  if (!names) return
  throw new StoreError(
    'store_too_new',
    `A newer release of pawl has migrated the Postgres schema "${schema.name}" (${names}), so this release must not write to it. Update this worker. Its sessions continue in the meantime, and pending writes resume after the update.`,
  )
}
