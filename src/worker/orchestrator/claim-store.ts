// When a worker starts, checks that the side store belongs to its namespace.
import { inTime } from '../../waiting/in-time.ts'
import { isForeignNamespace } from '../../store/errors.ts'
import type { Store } from '../../store/store.ts'

/** A worker also starts while Postgres is down. In that case, its flushes check the namespace. */
const PATIENCE_MS = 3_000

/** Claims the store for the worker's namespace. @throws StoreError `foreign_namespace`: in that case, the worker must not poll. */
export async function claimStore(store: Pick<Store, 'claim'>): Promise<void> {
  const claimed = store.claim().then(
    () => undefined,
    (error: unknown) => error,
  )
  const error = await inTime(claimed, PATIENCE_MS)
  if (isForeignNamespace(error)) throw error
}
