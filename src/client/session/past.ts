// The transcript as it was at a point of a session's past.
import type { SessionEvent, Target } from '../../session/events.ts'
import { checkTarget, locate, TargetRefused } from '../../session/targets.ts'
import type { MessageRow } from '../../store/rows.ts'
import { RequestRefused } from '../errors.ts'
import { messageRowsOf } from './message-rows.ts'

/** All events of a session, page by page: `read` returns those above a `seq`, and none at the end. */
export async function readAll(read: (after: number) => Promise<SessionEvent[]>): Promise<SessionEvent[]> {
  const all: SessionEvent[] = []
  for (;;) {
    const page = await read(all.at(-1)?.seq ?? 0)
    if (page.length === 0) return all
    all.push(...page)
  }
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
