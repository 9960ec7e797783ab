// What an event removes from a session, as a span.
import { defined } from '../session/defined.ts'
import type { SessionEvent } from '../session/events.ts'
import { type Cut, cutOf } from '../session/past/cut.ts'
import type { RunState, SessionState } from '../session/state.ts'
import { present, sessionAttributes } from './attributes.ts'
import { spanOf } from './ids.ts'
import type { Attributes, Span } from './span.ts'
import { stretchOf, type TrackedSession } from './tracked.ts'

/** A stretch of a run in progress. */
type StretchRef = Pick<RunState, 'run' | 'stretch'>

/** Copied, because the fold changes the run in place. */
export function placeIn({ current }: SessionState): StretchRef | undefined {
  return current ? { run: current.run, ...defined({ stretch: current.stretch }) } : undefined
}

/** What the event removes from the session, as a span of the newest run. The spans of the removed part have been exported, and stay. */
export function cutSpans(tracked: TrackedSession, event: SessionEvent, left: StretchRef | undefined): Span[] {
  const { state, newest } = tracked
  const cut = event.type === 'forked' ? undefined : cutOf(event, newest)
  if (!cut || event.seq === 1) return []
  const { run } = newest
  const place = stretchOf(tracked, run, left?.run === run ? left.stretch : undefined)
  return [
    {
      ...spanOf(place, { kind: 'event', seq: event.seq }),
      ...(run > 0 && { parentSpanId: spanOf(place, { kind: 'run' }).spanId }),
      name: `pawl.${event.type}`,
      kind: 'internal',
      startedAt: event.at,
      endedAt: event.at,
      attributes: { ...sessionAttributes(state), 'pawl.seq': event.seq, ...cutAttributes(cut, event) },
      links: [],
      events: [],
    },
  ]
}

function cutAttributes({ after, run, outcomes }: Cut, event: SessionEvent): Attributes {
  return present({
    'pawl.cut.after': after,
    'pawl.cut.run': run,
    'pawl.cut.calls': outcomes && [...new Set([...outcomes.madeAgain, ...outcomes.skipped])],
    'pawl.strategy': event.type === 'recovery_started' ? event.strategy : undefined,
  })
}
