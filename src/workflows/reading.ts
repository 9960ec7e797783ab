// Activities that read a session's events for the sender of an update: their failure is the sender's, not the session's.
import { sleep } from '@temporalio/workflow'
import { answerIn, whyLost } from './activities.ts'
import { refuse } from './open-session.ts'

/**
 * How long to wait before each try of an activity. Its watermark may come from a rejected task, but the next one does not; and a worker
 * that has just taken the session over may not be able to read all of it yet.
 */
const WAITS_MS = [0, 50, 250, 1_000, 2_500, 5_000]

/** The answer of such an activity once it has read the events. */
export async function readFor<R extends { kind: string }>(read: () => Promise<R>): Promise<Exclude<R, { kind: 'stale_watermark' }>> {
  for (const wait of WAITS_MS) {
    let answer: R
    try {
      if (wait > 0) await sleep(wait)
      answer = answerIn(await read())
    } catch (error) {
      // An update that fails with anything but a Temporal failure would fail the task.
      const lost = whyLost(error)
      return refuse(
        'events_unavailable',
        lost.how === 'cancelled' ? 'The session was cancelled meanwhile: resume it, then send the request again.' : lost.message,
      )
    }
    if (answer.kind !== 'stale_watermark') return answer as Exclude<R, { kind: 'stale_watermark' }>
  }
  return refuse('stale_watermark', 'The events of the session could not be read back: try again.')
}
