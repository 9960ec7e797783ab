// At a worker's start: whether the side store is its namespace's.
import { inTime } from '../../waiting/in-time.ts'
import { isForeignNamespace } from '../../store/errors.ts'
import type { Store } from '../../store/store.ts'

/** A worker also starts without Postgres. Its flushes then check the namespace. */
const PATIENCE_MS = 3_000

/** Claims the store for the worker's namespace. @throws StoreError `foreign_namespace`: nothing may be polled then. */
export async function claimStore(store: Pick<Store, 'claim'>): Promise<void> {
  const claimed = store.claim().then(
    () => undefined,
    (error: unknown) => error,
  )
  const error = await inTime(claimed, PATIENCE_MS)
  if (isForeignNamespace(error)) throw error
}
