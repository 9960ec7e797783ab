// The options of a worker's side store.
import { WorkerError } from './errors.ts'
import { defined } from '../session/defined.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

/** The options of the side store. The store itself checks the address. @throws WorkerError `no_postgres`. */
export function storeOptions<P>(options: { postgres?: P; schema?: string; migrate?: 'auto' | 'check' | 'off' }): {
  postgres: P | string
  schema?: string
  migrate?: 'auto' | 'check' | 'off'
} {
  const postgres = options.postgres ?? process.env.DATABASE_URL
  if (postgres === undefined || postgres === '') {
    throw new WorkerError(
      'no_postgres',
      `No side store is configured. Set DATABASE_URL, pass { postgres }, or run \`${SUGGESTIONS.develop()}\`, which starts one.`,
    )
  }
  return {
    postgres,
    ...defined({ schema: options.schema, migrate: options.migrate }),
  }
}
