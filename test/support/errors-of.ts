// The rows of `errors` of one session, in the order of its events.
import type { ListedError } from '../../src/store/listed.ts'
import type { Store } from '../../src/store/store.ts'

/** All of them: there are few. */
export async function errorsOf(store: Store, session: string): Promise<ListedError[]> {
  const { items } = await store.lists.errors({ session }, { limit: 1_000 })
  return items.toReversed()
}
