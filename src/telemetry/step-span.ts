// What the spans of models, tools and requests to people have in common: place, parent, and the exceptions that attempts threw.
import type { EventOf, SessionEvent } from '../session/events.ts'
import { present, sessionAttributes } from './attributes.ts'
import { type SpanSubject, spanOf } from './ids.ts'
import type { Span, SpanEvent } from './span.ts'
import { stretchOf, type TrackedSession } from './tracked.ts'

/** A span of the stretch that the event belongs to. */
export function span(
  tracked: TrackedSession,
  event: SessionEvent & { run: number; turn: number },
  about: SpanSubject,
  { name, kind, startedAt, attributes }: Pick<Span, 'name' | 'kind' | 'startedAt' | 'attributes'>,
): Span {
  const { state, open, agentCalls } = tracked
  const asked = about.kind === 'tool' ? agentCalls.get(about.callId) : undefined
  const place = asked?.of ?? stretchOf(tracked, event.run, state.current?.run === event.run ? state.current.stretch : undefined)
  // While a run rests, its turn has ended, possibly in an earlier stretch.
  const isInTurn = asked !== undefined || open?.turn?.turn === event.turn
  const parent: SpanSubject = isInTurn ? { kind: 'turn', turn: event.turn } : { kind: 'run' }
  return {
    ...spanOf(place, about),
    parentSpanId: spanOf(place, parent).spanId,
    name,
    kind,
    startedAt: Math.min(startedAt, event.at),
    endedAt: event.at,
    attributes: { ...sessionAttributes(state), 'pawl.seq': event.seq, ...attributes },
    links: [],
    events: [],
  }
}

/** What the attempt threw, as OpenTelemetry records exceptions. */
export function exceptionOf({ at, error }: EventOf<'model_attempt_failed' | 'tool_attempt_failed'>): SpanEvent {
  const { class: type, message, stack } = error
  const attributes = {
    'exception.type': type,
    'exception.message': message,
    'exception.stacktrace': stack && `${type}: ${message}\n${stack}`,
  }
  return { name: 'exception', at, attributes: present(attributes) }
}
