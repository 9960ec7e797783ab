// The transcript as it was at a point of a session's past.
import type { SessionEvent, Target } from '../../session/events.ts'
import { checkTarget, searchFor, TargetRefused } from '../../session/recovery/targets.ts'
import type { MessageRow } from '../../store/rows.ts'
import { RequestRefusedError } from '../errors.ts'
import { messageRows } from './message-rows.ts'

/** Returns the events above a `seq`: some of them, in order, and none at the end. */
export type ReadPage = (after: number) => Promise<SessionEvent[]>

/** A session's events above `after`, page by page. */
export async function* pagesOf(read: ReadPage, after = 0): AsyncGenerator<SessionEvent[]> {
  for (let cursor = after; ; ) {
    const page = await read(cursor)
    const last = page.at(-1)
    if (!last) return
    yield page
    cursor = last.seq
  }
}

/** A session's events above `after`, one by one: no more than a page is in memory. */
export async function* eventsOf(read: ReadPage, after = 0): AsyncGenerator<SessionEvent> {
  for await (const page of pagesOf(read, after)) yield* page
}

/**
 * The messages of the transcript as they were at `target`, including in an archived past. The events are read twice: to find the point, and
 * up to there. `withValues`: puts large values back into the events of a page.
 * @throws RequestRefusedError `checkpoint_not_found`, `message_not_found`, `run_not_found`, `invalid_target`.
 */
export async function transcriptAt(
  read: ReadPage,
  target: Target,
  withValues: (events: readonly SessionEvent[]) => Promise<SessionEvent[]>,
): Promise<MessageRow[]> {
  const seq = await seqOf(read, target)
  const messages = messageRows()
  for await (const page of pagesOf(read)) {
    const isLast = page.some((event) => event.seq > seq)
    for (const event of await withValues(isLast ? page.filter((event) => event.seq <= seq) : page)) messages.add(event)
    if (isLast) break
  }
  return messages.rows().filter((row) => row.run !== null)
}

async function seqOf(read: ReadPage, target: Target): Promise<number> {
  try {
    const search = searchFor(checkTarget(target))
    // Only the position matters here, so the digest can be empty.
    for await (const event of eventsOf(read)) search.add({ event, digest: '' })
    return search.found({ archived: true }).seq
  } catch (cause) {
    throw cause instanceof TargetRefused ? new RequestRefusedError(cause.code, cause.message, { cause }) : cause
  }
}
