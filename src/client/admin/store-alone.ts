// Opens a deployment's side store without Temporal, for administration.
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { openStore, type Store, StoreError } from '../../store/index.ts'
import { checkQueriesOptions, type QueriesOptions } from '../queries/queries-options.ts'

/**
 * Opens the store for `what`, such as API keys.
 * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`.
 */
export function openStoreAlone(given: QueriesOptions, what: string): Store {
  const { postgres = process.env.DATABASE_URL, schema, logger, onWait } = checkQueriesOptions(given)
  if (!postgres)
    throw new StoreError('no_store', `No side store for ${what} is configured. Set DATABASE_URL, or run \`${SUGGESTIONS.develop()}\` here.`)
  return openStore({ postgres, migrate: 'off', ...defined({ schema, logger, onWait }) })
}
