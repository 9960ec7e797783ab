// Follows a session: its events as they arrive, from the store, or from its workflow while the store is unreachable or behind; and, for a
// watcher, the text that its model is generating.
import type { SessionEvent, SessionStatus } from '../../session/events.ts'
import type { Store, NotificationKind } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'
import type { TakePlace } from '../../waiting/places.ts'
import { noteSeen, readStored, type SessionSource, STORE_PATIENCE_MS, workflowEvents } from './events.ts'
import { startWatching, type WatchItem } from '../../session/watching/watching.ts'
import { compareStreams, type DeltaCursor, type DeltaPart } from '../../session/watching/deltas.ts'

/** The same for followers: a process may have thousands, whose consumers may be slow. */
const FOLLOWED_BYTES = 250_000
/** How often a follower polls the store if no notifications arrive. */
const POLL_STORE_MS = 1_000
/** How often it polls if notifications of other sessions arrive: polling then only has to replace one that was lost. */
const POLL_TALKING_STORE_MS = 5_000
const TALKS_WITHIN_MS = 10_000
/** How often the workflow is asked while the store is unreachable: at first, and after it has had nothing new for a while. */
const POLL_WORKFLOW_MS = 250
const POLL_SILENT_WORKFLOW_MS = 2_000
/** A silent store may be behind. The workflow is then queried, too, but less and less often, because a query costs as much as a turn. */
const DOUBT_STORE_AFTER_MS = 2_000
/** Notifications of other sessions show that workers write to the store: this session may simply have no new events. */
const DOUBT_TALKING_STORE_AFTER_MS = 10_000
const MAX_DOUBT_MS = 30_000

/** The result of reading the store once: the events above `after`, and whatever else a follower wants. */
interface LookResult {
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
  which?: NotificationKind,
): AsyncGenerator<SessionEvent[]> {
  const { sessionId } = source
  const look = async (store: Store, cursor: number): Promise<LookResult> => ({ events: await store.events(sessionId, { after: cursor }) })
  for await (const { events } of follow(source, { after, signal, notifications: [which ?? 'everything'], look })) yield events
}

/**
 * Reads the store, or the workflow if the store is unreachable or behind, whenever there may be something new.
 * @throws StoreError `store_closed` once the client is closed: nothing more would ever arrive.
 */
async function* follow<L extends LookResult>(
  source: SessionSource,
  {
    after,
    signal,
    notifications,
    look,
    hasMore,
    takePlace = async () => () => undefined,
  }: {
    after: number
    signal: AbortSignal
    /** Which notifications make it read at once. */
    notifications: readonly NotificationKind[]
    look(store: Store, after: number): Promise<L>
    /** Whether a read without events has something for the follower. Default: it does not. */
    hasMore?(looked: L): boolean
    /** What is read is held in a place until the follower's consumer has it. Default: there is always one. */
    takePlace?: TakePlace | undefined
  },
): AsyncGenerator<{ events: SessionEvent[]; looked: L | undefined }> {
  const { store, sessionId, closed } = source
  const wakeup = startWakeup(signal)
  closed.addEventListener('abort', wakeup.wake)
  const unwatch = notifications.map((which) => store?.watch(sessionId, wakeup.wake, which))
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
      const giveBack = await takePlace()
      let waitMs: number | undefined
      try {
        if (signal.aborted) break
        const looked = await ask()
        const isNews = looked !== undefined && (looked.events.length > 0 || hasMore?.(looked) === true)
        let events = looked?.events ?? []
        if (isNews) {
          heardAt = performance.now()
          doubtAfter = DOUBT_STORE_AFTER_MS
        } else if (looked === undefined || isDoubtful()) {
          events = await workflowEvents(source, cursor, FOLLOWED_BYTES).catch(() => [])
          heardAt = performance.now()
          doubtAfter = events.length > 0 ? DOUBT_STORE_AFTER_MS : Math.min(doubtAfter * 2, MAX_DOUBT_MS)
        }
        // Thousands may follow idle sessions. Their queries take the workers' time from the others, most of all if they come together.
        const isSilent = looked === undefined && events.length === 0
        pollWorkflowMs = isSilent ? Math.min(pollWorkflowMs * 2, POLL_SILENT_WORKFLOW_MS) : POLL_WORKFLOW_MS
        const batch = events.filter((event) => event.seq > cursor)
        cursor = batch.at(-1)?.seq ?? cursor
        noteSeen(source, cursor)
        if ((batch.length > 0 || isNews) && !signal.aborted) yield { events: batch, looked }
        if (events.length === 0 && !looked?.more)
          waitMs = looked === undefined ? pollWorkflowMs * (0.75 + Math.random() / 2) : Math.min(looked.withinMs ?? pollMs(), pollMs())
      } finally {
        giveBack()
      }
      if (waitMs !== undefined) await wakeup.wait(waitMs)
    }
  } finally {
    for (const end of unwatch) end?.()
    closed.removeEventListener('abort', wakeup.wake)
    wakeup.close()
  }
}

/** A wait that ends at a notification, after a time, or when the signal aborts. */
export function startWakeup(signal: AbortSignal): { wake: () => void; wait(ms: number): Promise<void>; close(): void } {
  let isDue = false
  let resume: (() => void) | undefined
  const wake = (): void => {
    isDue = true
    resume?.()
  }
  signal.addEventListener('abort', wake)
  return {
    wake,
    wait: (ms) =>
      new Promise((resolve) => {
        if (isDue) {
          isDue = signal.aborted
          return resolve()
        }
        const timer = setTimeout(() => resume?.(), ms)
        resume = () => {
          clearTimeout(timer)
          resume = undefined
          isDue = signal.aborted
          resolve()
        }
      }),
    close: () => signal.removeEventListener('abort', wake),
  }
}

/** How often a running session is read if its notifications do not arrive, as behind a pooler. */
const POLL_RUNNING_MS = 100

/** What happens in the session after event `after`, in batches, until `signal` aborts. */
export async function* watchBatches(
  source: SessionSource,
  after: number,
  signal: AbortSignal,
  takePlace?: TakePlace,
): AsyncGenerator<WatchItem[]> {
  const { sessionId, store } = source
  const watching = startWatching(after, await lastCallEnd(source, after))
  /** From where the newest read began. */
  let before: DeltaCursor | undefined

  /** `status`: at the moment of the parts; absent while the events are behind it. */
  async function look(from: Store, cursor: number): Promise<LookResult & { parts: DeltaPart[]; status?: SessionStatus }> {
    const { cursor: place } = watching
    // Parts that wait for their events do not move it: more of them are of no use before those have arrived.
    const isMoved = before === undefined || compareStreams(place, before) !== 0 || place.until !== before.until
    before = { ...place }
    const live = await from.live(sessionId, place)
    const stored = live.head > cursor ? await from.events(sessionId, { after: cursor, bytes: FOLLOWED_BYTES }) : []
    // Events that were stored since belong to the next moment, with the status that they led to.
    const events = stored.filter(({ seq }) => seq <= live.head)
    // The parts belong to one moment: the events before it come first. If none arrived, the database that was read is behind.
    if ((events.at(-1)?.seq ?? cursor) < live.head)
      return { events, parts: [], ...(events.length > 0 ? { more: true } : { withinMs: POLL_RUNNING_MS }) }
    const isSilent = live.status === 'running' && store?.hasHeardWithin(TALKS_WITHIN_MS) === false
    return {
      events,
      parts: live.parts,
      more: live.more && (isMoved || events.length > 0),
      ...(live.status !== null && { status: live.status }),
      ...(isSilent && { withinMs: POLL_RUNNING_MS }),
    }
  }

  const hasMore = ({ parts, status }: Awaited<ReturnType<typeof look>>): boolean =>
    parts.length > 0 || (status !== undefined && status !== watching.status)
  const notifications: NotificationKind[] = ['everything', 'deltas']
  for await (const { events, looked } of follow(source, { after, signal, notifications, look, hasMore, takePlace })) {
    const items = watching.events(events)
    if (looked) items.push(...watching.parts(looked.parts))
    if (looked?.status !== undefined) items.push(...watching.setStatus(looked.status))
    if (items.length > 0) yield items
  }
}

/** Model calls that began before this event have ended. Without the store, nothing can be seen of a model call. */
async function lastCallEnd({ sessionId, store }: SessionSource, after: number): Promise<number> {
  const found = store?.lastCallEnd(sessionId, after).catch(() => after)
  return (found && (await inTime(found, STORE_PATIENCE_MS))) ?? after
}
