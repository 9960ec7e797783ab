// The transcript as it was at a point of a session's past.
import type { SessionEvent, Target } from '../../session/events.ts'
import { checkTarget, locate, TargetRefused } from '../../session/recovery/targets.ts'
import type { MessageRow } from '../../store/rows.ts'
import { RequestRefused } from '../errors.ts'
import { messageRowsOf } from './message-rows.ts'

/** Returns the events above a `seq`: some of them, in order, and none at the end. */
type ReadPage = (after: number) => Promise<SessionEvent[]>

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

/** All events of a session. */
export async function readAll(read: ReadPage): Promise<SessionEvent[]> {
  const all: SessionEvent[] = []
  for await (const page of pagesOf(read)) all.push(...page)
  return all
}

/**
 * The messages of the transcript as they were at `target`, also in an archived past.
 * `events`: all of the session's.
 * @throws RequestRefused `checkpoint_not_found`, `message_not_found`, `run_not_found`, `invalid_target`.
 */
export function transcriptAt(events: readonly SessionEvent[], target: Target): MessageRow[] {
  const seq = seqOf(events, target)
  const rows = messageRowsOf(events.filter((event) => event.seq <= seq))
  return rows.filter((row) => row.run !== null)
}

function seqOf(events: readonly SessionEvent[], target: Target): number {
  // Only the place matters here, so the digest can be empty.
  const entries = events.map((event) => ({ event, digest: '' }))
  try {
    return locate(entries, checkTarget(target), { archived: true }).seq
  } catch (cause) {
    throw cause instanceof TargetRefused ? new RequestRefused(cause.code, cause.message, { cause }) : cause
  }
}
