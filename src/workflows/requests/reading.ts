// Activities that read a session's events for the sender of an update. If one fails, the request fails, not the session.
import type { Unreadable } from '../../calls/activities.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { Journal } from '../journal.ts'
import { answerIn, whyLost } from '../lost-activity.ts'
import { refuse } from '../session-parts.ts'

/** How often an activity is tried. The first watermark may come from a rejected task, but the next one does not. */
const ASKS = 3

/** Returns the answer of such an activity, or refuses the request if the events cannot be read. */
export async function readFor<R extends { kind: string }>(read: () => Promise<R | Unreadable>): Promise<R> {
  for (let ask = 1; ; ask++) {
    let answer: R | Unreadable
    try {
      answer = answerIn(await read())
    } catch (error) {
      // If an update throws anything but a Temporal failure, its workflow task fails.
      const lost = whyLost(error)
      return refuse(
        'events_unavailable',
        lost.how === 'cancelled' ? 'The session was cancelled in the meantime. Resume it, then send the request again.' : lost.message,
      )
    }
    if (!isUnreadable(answer)) return answer
    const { reason } = answer
    if (ask === ASKS)
      return refuse('stale_watermark', `The events of the session could not be read back${reason ? `: ${reason}` : ''}. Try again.`)
  }
}

/** Reads, again if an event of a certain kind was made meanwhile. */
export async function readWhileStill<R>(
  journal: Pick<Journal, 'watermark' | 'since'>,
  read: () => Promise<R>,
  changesIt: (event: SessionEvent) => boolean,
): Promise<R> {
  for (;;) {
    const { seq } = journal.watermark()
    const answer = await read()
    if (!journal.since(seq).some(changesIt)) return answer
  }
}

function isUnreadable(answer: { kind: string }): answer is Unreadable {
  return answer.kind === 'stale_watermark'
}
