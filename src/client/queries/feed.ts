// The feed: the events of all sessions, each with a cursor to resume from. Each event is delivered at least once, and none is skipped.
import type { FeedFilter, FeedItem, Key } from '../../store/read/lists/index.ts'
import { StoreError, type Store } from '../../store/index.ts'
import { startWakeup } from '../session/follow.ts'
import { cursorOf, keyOf, readAfter } from './list.ts'
import type { FeedOptions } from './list-options.ts'
import { defined } from '../../session/defined.ts'

/** An event of the feed. */
export interface FeedEvent extends FeedItem {
  /** Store it once the event is processed, and pass it as `after` to resume. Valid with any other options. */
  cursor: string
}

const TAG = 'feed'
/** How often the store is polled if no notification arrives, and while it is unavailable. */
const POLL_MS = 1_000
/** Bytes of JSON that a follower holds at a time: a process may have thousands, whose consumers may be slow. */
const FOLLOWED_BYTES = 250_000

/** The events after `after`, in the order in which their transactions began; events of one session are in `seq` order. */
export async function* readFeed(store: Store, options: FeedOptions): AsyncGenerator<FeedEvent> {
  const { types, agent, idPrefix, after, follow = false, signal = new AbortController().signal } = options
  const filter: FeedFilter = { ...(types && { types }), ...defined({ agent, idPrefix }), ...(follow && { bytes: FOLLOWED_BYTES }) }
  let place: Key | undefined = after === undefined ? undefined : keyOf(after, TAG)
  const wakeup = startWakeup(signal)
  const unwatch = follow ? store.watch('*', wakeup.wake) : undefined
  try {
    while (!signal.aborted) {
      const rows = await readAfter(place, (from) => store.lists.feed(filter, from)).catch((error: unknown) => {
        if (follow && error instanceof StoreError && error.code === 'store_unavailable') return undefined
        throw error
      })
      for (const { item, place: at } of rows?.items ?? []) {
        yield { ...item, cursor: cursorOf(at, TAG) }
        if (signal.aborted) return
      }
      place = rows?.next ?? place
      if (rows?.more) continue
      if (!follow) return
      await wakeup.wait(POLL_MS)
    }
  } finally {
    unwatch?.()
    wakeup.close()
  }
}
