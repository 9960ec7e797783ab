// Where a worker's side store is.
import { WorkerError } from './errors.ts'
import { defined } from '../session/defined.ts'

/** Where the side store is. Whether the address can be one of Postgres at all, the store itself says. @throws WorkerError `no_postgres`. */
export function storeOptions<P>(options: { postgres?: P; schema?: string; migrate?: 'auto' | 'check' | 'off' }): {
  postgres: P | string
  schema?: string
  migrate?: 'auto' | 'check' | 'off'
} {
  const postgres = options.postgres ?? process.env.DATABASE_URL
  if (postgres === undefined || postgres === '') {
    throw new WorkerError(
      'no_postgres',
      'No side store is configured: set DATABASE_URL, give { postgres }, or use `pawl dev`, which brings its own.',
    )
  }
  return {
    postgres,
    ...defined({ schema: options.schema, migrate: options.migrate }),
  }
}
