// Selects the events that a session's conversation still shows. Rollbacks, restarts and abandoned runs remove the others.
import type { SessionEvent } from '../session/events.ts'
import { requestOf } from '../session/past/outcomes.ts'
import { addToVisible, nothingVisible, type VisiblePast } from '../session/past/visible.ts'

/** An event of the conversation. */
export interface Surviving {
  event: SessionEvent
  /** The event's place: its `seq`, or that of the outcome that it replaces. */
  at: number
  /** The answers and calls of this part are archived; only what users said in it remains. */
  isArchived: boolean
}

/** The events that remain after the newest one, in the order of the conversation. */
export function surviving(events: readonly SessionEvent[]): Surviving[] {
  const past = nothingVisible()
  for (const event of events) addToVisible(past, event)
  const placeOf = placesIn(past)
  const kept = past.entries.flatMap(({ event, out, archivedBy }) => {
    if (archivedBy || (out && out.taken !== 'stay')) return []
    return [{ event, at: placeOf(event), isArchived: out !== undefined }]
  })
  return kept.sort((a, b) => a.at - b.at || a.event.seq - b.event.seq)
}

/** Results of a call that was made again, or skipped, return to their old place, before messages that a later turn of the run took. */
function placesIn({ entries, outcomes }: VisiblePast): (event: SessionEvent) => number {
  const taking = entries.flatMap(({ event }) => (event.type === 'turn_started' && event.takes.length > 0 ? [event] : []))
  return (event) => {
    const request = event.type === 'tool_resolved' ? undefined : requestOf(event)
    const first = request === undefined ? undefined : outcomes.get(request)
    if (!first || first.seq >= event.seq) return event.seq
    const isLater = taking.some(({ run, seq }) => run === first.run && seq > first.seq && seq < event.seq)
    return isLater ? first.seq : event.seq
  }
}
