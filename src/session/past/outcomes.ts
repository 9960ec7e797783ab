// When calls had their first outcomes: a call that had one at a point stays when the session goes back to that point, with its newest outcome.
import { type EventOf, requestIdOf, type SessionEvent } from '../events.ts'
import type { Cut } from './cut.ts'

/** By request, the first outcome of the calls that count. */
export type FirstOutcomes = Map<string, { run: number; seq: number }>

/** An event with the result that the model sees. */
type Outcome = EventOf<'tool_completed' | 'tool_failed' | 'tool_unknown'>

/** Notes the event's outcome, if it has one, in place. */
export function noteOutcome(outcomes: FirstOutcomes, event: SessionEvent): void {
  if (!isOutcome(event)) return
  const { run, seq, callId } = event
  const request = requestIdOf(callId)
  if (!outcomes.has(request)) outcomes.set(request, { run, seq })
}

/** A call that a person must resolve gets its result with the resolution. */
function isOutcome(event: SessionEvent): event is Outcome {
  return event.type === 'tool_completed' || event.type === 'tool_failed' || (event.type === 'tool_unknown' && !event.ask)
}

/** Forgets the calls that the cut takes out, in place. */
export function cutOutcomes(outcomes: FirstOutcomes, cut: Cut): void {
  if (cut.outcomes) return
  for (const [request, { run, seq }] of outcomes) {
    if (seq > cut.after && (cut.run === undefined || cut.run === run)) outcomes.delete(request)
  }
}

/** The `seq` of the first outcome of the call whose own event this is; undefined if it has none, or is no call's. */
export function firstOutcomeOf(outcomes: FirstOutcomes, event: SessionEvent): number | undefined {
  const request = requestOf(event)
  return request === undefined ? undefined : outcomes.get(request)?.seq
}

/** The request of the call whose own event this is; undefined if it is no call's. What hooks say about a call is not its own. */
export function requestOf(event: SessionEvent): string | undefined {
  if (!('callId' in event) || event.callId === undefined) return undefined
  return 'hook' in event && event.hook !== undefined ? undefined : requestIdOf(event.callId)
}
