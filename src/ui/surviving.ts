// Selects the events that a session's conversation still shows. Rollbacks, restarts and abandoned runs remove the others.
import type { SessionEvent } from '../session/events.ts'
import { cutOf, endsBegunTurn, NO_RUN } from '../session/past/cut.ts'
import { requestOf } from '../session/past/outcomes.ts'
import { addToVisible, nothingVisible, type VisiblePast } from '../session/past/visible.ts'

/** An event of the conversation. */
export interface SurvivingEvent {
  event: SessionEvent
  /** The event's place: its `seq`, or that of the outcome that it replaces. */
  at: number
  /** Whether the answers and calls of this part are archived, so that only the users' messages in it remain. */
  isArchived: boolean
}

/** The events that remain after the newest one has been applied, in the order of the conversation. */
export function surviving(events: readonly SessionEvent[]): SurvivingEvent[] {
  const past = nothingVisible()
  for (const event of events) addToVisible(past, event)
  const placeOf = placesIn(past)
  const isUnanswered = turnsEndedIn(past)
  const kept = past.entries.flatMap(({ event, out, archivedBy }) => {
    if (archivedBy || (out && out.taken !== 'stay')) return []
    return [{ event, at: placeOf(event), isArchived: out !== undefined || isUnanswered(event) }]
  })
  return kept.sort((a, b) => a.at - b.at || a.event.seq - b.event.seq)
}

/** Turns that a recovery has left for an earlier one, whose calls are made again: those still belong to the answer. */
function turnsEndedIn({ entries }: VisiblePast): (event: SessionEvent) => boolean {
  const cuts = entries.flatMap(({ event, out }) => {
    if (out || event.type !== 'recovery_started') return []
    return cutOf(event, { ...NO_RUN, run: event.run ?? 0 }) ?? []
  })
  return (event) => cuts.some((cut) => endsBegunTurn(cut, event))
}

/**
 * Moves a later outcome of a call to the place of the first one, if an answer has begun or the session has gone back since. Such an outcome
 * means that the call was repeated or skipped, or that its outcome became known.
 */
function placesIn({ entries, outcomes }: VisiblePast): (event: SessionEvent) => number {
  const bounds = entries.flatMap(({ event }) => (endsAnswer(event) ? [event.seq] : []))
  return (event) => {
    const request = requestOf(event)
    const first = request === undefined ? undefined : outcomes.first.get(request)
    if (!first || first.seq >= event.seq) return event.seq
    return bounds.some((seq) => seq > first.seq && seq < event.seq) ? first.seq : event.seq
  }
}

function endsAnswer(event: SessionEvent): boolean {
  return event.type === 'turn_started'
    ? event.takes.length > 0
    : event.type === 'forked' || (event.type === 'rolled_back' && !event.keepsRun)
}
