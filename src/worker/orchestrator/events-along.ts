// The events that a job brings along: those that its executor has not folded yet, so that it need not ask.
import type { EventsInput } from '../../activities/contract.ts'
import type { EventLog } from '../../activities/needs.ts'
import type { EventsAlong, JobOrder } from '../../jobs/contract.ts'
import { type Executor, viewKey } from './executors.ts'

/** What to send along with a job to this executor. */
export type EventsFor = (executor: Executor, order: JobOrder) => EventsAlong | undefined

const START = { seq: 0, digest: '' }

/** From the log alone: what it lacks, the executor asks for. */
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
