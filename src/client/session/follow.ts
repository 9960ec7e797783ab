// Follows a session: its events as they arrive, from the store, or from its workflow while the store is unreachable or behind.
import type { SessionEvent } from '../../session/events.ts'
import type { Store, WatchedCommits } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'
import { startBell } from './bell.ts'
import { queryLive, readStored, type SessionSource } from './events.ts'

/** The same for followers: a process may have thousands, whose consumers may be slow. */
export const FOLLOWED_BYTES = 250_000
/** How often a follower polls the store if no notifications arrive. */
const POLL_STORE_MS = 1_000
/** How often it polls if notifications of other sessions arrive: polling then only has to replace one that was lost. */
const POLL_TALKING_STORE_MS = 5_000
export const TALKS_WITHIN_MS = 10_000
/** How long a follower waits for the store before it asks the workflow. */
export const STORE_PATIENCE_MS = 1_000
/** How often the workflow is asked while the store is unreachable: at first, and after it has had nothing new for a while. */
const POLL_WORKFLOW_MS = 250
const POLL_SILENT_WORKFLOW_MS = 2_000
/** A silent store may be behind. The workflow is then queried, too, but less and less often, because a query costs as much as a turn. */
const DOUBT_STORE_AFTER_MS = 2_000
/** Notifications of other sessions show that workers write to the store: this session may simply have no new events. */
const DOUBT_TALKING_STORE_AFTER_MS = 10_000
const MAX_DOUBT_MS = 30_000

/** The result of reading the store once: the events above `after`, and whatever else a follower wants. */
export interface LookResult {
  events: SessionEvent[]
  /** There is more to read immediately. */
  more?: boolean
  /** The longest wait until the next read. */
  withinMs?: number
}

/**
 * Reads the store for a follower. A hanging store must not hold the follower up, so a slow read is not awaited, and the store counts as
 * unreachable until it ends. Undefined if the store is unreachable, or there is none.
 */
function impatientReader<L>(source: SessionSource, look: (store: Store) => Promise<L>): () => Promise<L | undefined> {
  let slow = false
  return async () => {
    if (slow) return undefined
    const reading = readStored(source, look).finally(() => {
      slow = false
    })
    const read = await inTime(reading, STORE_PATIENCE_MS)
    slow = read === undefined
    return read?.rows
  }
}

/**
 * The events above `after` as they arrive, in batches of all that are known (later events may change what one means), until `signal`
 * aborts. A follower of `news` receives the steps of a run together with the next news, or after a few seconds.
 */
export async function* followBatches(
  source: SessionSource,
  after: number,
  signal: AbortSignal,
  which?: WatchedCommits,
): AsyncGenerator<SessionEvent[]> {
  const { sessionId } = source
  const look = async (store: Store, cursor: number): Promise<LookResult> => ({ events: await store.events(sessionId, { after: cursor }) })
  for await (const { events } of follow(source, { after, signal, bells: [which ?? 'everything'], look })) yield events
}

/** What a follower reads, and which notifications make it read at once. */
export interface FollowerSource<L extends LookResult> {
  after: number
  signal: AbortSignal
  bells: readonly WatchedCommits[]
  look(store: Store, after: number): Promise<L>
  /** Whether a read without events has something for the follower. Default: it does not. */
  hasMore?(looked: L): boolean
}

/**
 * Reads the store, or the workflow if the store is unreachable or behind, whenever there may be something new.
 * @throws StoreError `store_closed` once the client is closed: nothing more would ever arrive.
 */
export async function* follow<L extends LookResult>(
  source: SessionSource,
  { after, signal, bells, look, hasMore }: FollowerSource<L>,
): AsyncGenerator<{ events: SessionEvent[]; looked: L | undefined }> {
  const { store, sessionId, closed } = source
  const bell = startBell(signal)
  closed.addEventListener('abort', bell.ring)
  const unwatch = bells.map((which) => store?.watch(sessionId, bell.ring, which))
  let cursor = after
  const ask = impatientReader(source, (from) => look(from, cursor))
  let doubtAfter = DOUBT_STORE_AFTER_MS
  let pollWorkflowMs = POLL_WORKFLOW_MS
  /** When anything from the session last arrived, or its workflow was last queried. */
  let heardAt = performance.now()
  const isDoubtful = (): boolean => {
    const after = store?.hasHeardWithin(DOUBT_STORE_AFTER_MS) ? Math.max(doubtAfter, DOUBT_TALKING_STORE_AFTER_MS) : doubtAfter
    return performance.now() - heardAt >= after
  }
  const pollMs = (): number => (store?.hasHeardWithin(TALKS_WITHIN_MS) ? POLL_TALKING_STORE_MS : POLL_STORE_MS)
  try {
    while (!signal.aborted) {
      closed.throwIfAborted()
      const looked = await ask()
      const isNews = looked !== undefined && (looked.events.length > 0 || hasMore?.(looked) === true)
      let events = looked?.events ?? []
      if (isNews) {
        heardAt = performance.now()
        doubtAfter = DOUBT_STORE_AFTER_MS
      } else if (looked === undefined || isDoubtful()) {
        events = await queryLive(source, cursor, FOLLOWED_BYTES).catch(() => [])
        heardAt = performance.now()
        doubtAfter = events.length > 0 ? DOUBT_STORE_AFTER_MS : Math.min(doubtAfter * 2, MAX_DOUBT_MS)
      }
      // Thousands may follow idle sessions. Their queries take the workers' time from the others, most of all if they come together.
      const isSilent = looked === undefined && events.length === 0
      pollWorkflowMs = isSilent ? Math.min(pollWorkflowMs * 2, POLL_SILENT_WORKFLOW_MS) : POLL_WORKFLOW_MS
      const batch = events.filter((event) => event.seq > cursor)
      cursor = batch.at(-1)?.seq ?? cursor
      if ((batch.length > 0 || isNews) && !signal.aborted) yield { events: batch, looked }
      if (events.length > 0 || looked?.more) continue
      await bell.wait(looked === undefined ? pollWorkflowMs * (0.75 + Math.random() / 2) : Math.min(looked.withinMs ?? pollMs(), pollMs()))
    }
  } finally {
    for (const end of unwatch) end?.()
    closed.removeEventListener('abort', bell.ring)
    bell.close()
  }
}
