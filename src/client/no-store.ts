// Access to the side store, for a client that may have none.
import { type Store, StoreError } from '../store/index.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

/** Returns the store. @throws StoreError `no_store`. */
export function storeOr(store: Store | undefined): Store {
  if (store) return store
  throw noStore()
}

/** The error for a client without a store. */
export function noStore(): StoreError {
  return new StoreError(
    'no_store',
    `This client has no side store. Set DATABASE_URL, run \`${SUGGESTIONS.develop()}\` in this folder, or pass the workers’ \`postgres\` to Pawl.connect().`,
  )
}
