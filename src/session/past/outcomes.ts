// When calls had their first outcomes. If a call already had an outcome at a point, it stays when the session goes back to that point, with
// its newest outcome.
import { requestIdOf } from '../ids.ts'
import type { SessionEvent } from '../events.ts'
import { abandonsCalls } from './call-status.ts'
import type { Cut } from './cut.ts'

/** The first outcomes of the calls that count, by request. */
export interface FirstOutcomes {
  first: Map<string, FirstOutcome>
  /** Calls that a person must resolve. They get their result with the resolution, or when they are abandoned. */
  asked: Map<string, Pick<FirstOutcome, 'run'>>
}

interface FirstOutcome {
  run: number
  seq: number
}

export function noOutcomes(): FirstOutcomes {
  return { first: new Map(), asked: new Map() }
}

/** Notes the event's outcomes, in place. */
export function noteOutcome({ first, asked }: FirstOutcomes, event: SessionEvent): void {
  const { seq } = event
  if (abandonsCalls(event)) {
    for (const [request, { run }] of asked) first.set(request, { run, seq })
    asked.clear()
  }
  if (event.type !== 'tool_completed' && event.type !== 'tool_failed' && event.type !== 'tool_unknown') return
  const { run, callId } = event
  const request = requestIdOf(callId)
  if (first.has(request)) return
  if (event.type === 'tool_unknown' && event.ask) return void asked.set(request, { run })
  asked.delete(request)
  first.set(request, { run, seq })
}

/** Forgets the calls that the cut removes, in place. */
export function cutOutcomes({ first, asked }: FirstOutcomes, cut: Cut): void {
  if (cut.outcomes) return
  for (const [request, { run, seq }] of first) {
    if (seq > cut.after && (cut.run === undefined || cut.run === run)) first.delete(request)
  }
  for (const [request, { run }] of asked) if (cut.run === undefined || cut.run === run) asked.delete(request)
}

/** The `seq` of the first outcome of the call whose own event this is; undefined if the call has none, or the event is not a call's own. */
export function firstOutcomeOf({ first }: FirstOutcomes, event: SessionEvent): number | undefined {
  const request = requestOf(event)
  return request === undefined ? undefined : first.get(request)?.seq
}

/** The request of the call whose own event this is; undefined if it is not a call's own. Hooks' answers about a call are not its own. */
export function requestOf(event: SessionEvent): string | undefined {
  if (!('callId' in event) || event.callId === undefined) return undefined
  return 'hook' in event && event.hook !== undefined ? undefined : requestIdOf(event.callId)
}
