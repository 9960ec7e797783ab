// Chooses the events to send along with a job: those that its executor has not folded yet and would have to request.
import type { EventsInput } from '../../../calls/activities.ts'
import type { EventLog } from '../../../activities/needs.ts'
import type { EventsAlong, JobOrder } from '../../../calls/jobs.ts'
import { type Executor, viewKey } from './executor-state.ts'

/** The events to send along with a job to this executor. */
export type EventsFor = (executor: Executor, order: JobOrder) => EventsAlong | undefined

const START = { seq: 0, digest: '' }

/** Uses the log only: the executor requests what the log lacks. */
export function eventsFrom(log: EventLog): EventsFor {
  return ({ views }, order) => {
    const key = viewKey(order)
    if (key === undefined) return undefined
    const { epoch, watermark, origin } = order.input as EventsInput
    const from = views.get(key) ?? origin ?? START
    views.set(key, watermark)
    if (from.seq >= watermark.seq) return undefined
    const entries = log.read({ sessionId: order.ticket.sessionId, epoch }, from, watermark)
    return entries && { from, entries }
  }
}
