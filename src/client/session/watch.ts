// Watches a session live: its events, and the text that its model is generating.
import type { SessionStatus } from '../../session/events.ts'
import { startWatching, type WatchItem } from '../../session/watching/watching.ts'
import { compareStreams, type DeltaCursor, type DeltaPart } from '../../session/watching/deltas.ts'
import type { Store } from '../../store/store.ts'
import { type SessionSource } from './events.ts'
import { follow, FOLLOWED_BYTES, type LookResult, STORE_PATIENCE_MS, TALKS_WITHIN_MS } from './follow.ts'
import { inTime } from '../../waiting/in-time.ts'

/** How often a running session is read if its notifications do not arrive, as behind a pooler. */
const POLL_RUNNING_MS = 100

interface LiveLookResult extends LookResult {
  parts: DeltaPart[]
  /** The status at the moment of the parts; absent while the events are behind it. */
  status?: SessionStatus
}

/** What happens in the session after event `after`, in batches, until `signal` aborts. */
export async function* watchBatches(source: SessionSource, after: number, signal: AbortSignal): AsyncGenerator<WatchItem[]> {
  const { sessionId, store } = source
  const watching = startWatching(after, await lastCallEnd(source, after))
  /** From where the newest read began. */
  let before: DeltaCursor | undefined

  async function look(from: Store, cursor: number): Promise<LiveLookResult> {
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

  const hasMore = ({ parts, status }: LiveLookResult): boolean => parts.length > 0 || (status !== undefined && status !== watching.status)
  for await (const { events, looked } of follow(source, { after, signal, bells: ['everything', 'live'], look, hasMore })) {
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
