// Breaking migrations: a release that does not know one stops writing, and goes on by itself once it is replaced.
import { StoreError } from '../errors.ts'
import type { Schema } from './schema.ts'

/** A query for one row: `names`, those of the breaking migrations that are not among the parameter's (null: nobody asks). */
export function breakingMigrations(schema: Schema, known: string): string {
  return `select string_agg(name, ', ') as names from ${schema.table('migrations')} where breaking and name <> all (${known}::text[])`
}

/** @throws StoreError `store_too_new` if there are any. */
export function refuseTooNew(schema: Schema, names: string | null | undefined): void {
  if (!names) return
  throw new StoreError(
    'store_too_new',
    `A newer release of pawl has migrated the schema "${schema.name}" (${names}) so that this one must not write to it: update this worker. Its sessions go on meanwhile, and what it has not written is written then.`,
  )
}
