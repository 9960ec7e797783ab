// The spans of turns and of stretches of a run, which are made when these end, with those of the steps that end with them.
import type { UserBlock } from '../session/content.ts'
import type { SessionEvent } from '../session/events.ts'
import type { SessionState } from '../session/state.ts'
import { inputMessages, present, sessionAttributes, usageAttributes } from './attributes.ts'
import { type SpanSubject, spanOf, type Stretch } from './ids.ts'
import type { Attributes, AttributeValue, Span, SpanLink } from './span.ts'
import { toolAttributes } from './tool-spans.ts'
import type { OpenRun, ProjectOptions, TracedTurn, TrackedSession } from './tracked.ts'

/** The steps of a run that may be in progress. */
interface Steps {
  isAsking: boolean
  issued: string[]
}

export function stepsIn({ current }: SessionState): Steps {
  if (!current) return { isAsking: false, issued: [] }
  const issued = current.calls.filter(({ status }) => status === 'issued').map(({ callId }) => callId)
  return { isAsking: current.phase === 'model', issued }
}

/** Ends the stretch: its own span, and those of steps that were abandoned with it. */
export function endStretch(
  tracked: TrackedSession,
  event: SessionEvent,
  options: ProjectOptions,
  before: Steps = stepsIn(tracked.state),
): Span[] {
  const { open, state } = tracked
  if (!open) return []
  const spans = endTurn(tracked, event, options, before)
  const { run, stretch, startedAt, links, usage, usd } = open
  const about: Record<string, AttributeValue | undefined> = {
    'gen_ai.operation.name': 'invoke_agent',
    'pawl.run': run,
    'pawl.stretch': stretch,
    'pawl.outcome': OUTCOMES[event.type] ?? (state.paused ? 'paused' : state.status === 'waiting' ? 'waiting' : 'abandoned'),
    ...usageAttributes(usage),
    'pawl.usd': usd,
  }
  delete tracked.open
  return [...spans, stretchSpan(tracked, open, event, { about: present(about), startedAt, links })]
}

const OUTCOMES: Partial<Record<SessionEvent['type'], string>> = {
  run_completed: 'completed',
  run_interrupted: 'interrupted',
  error_entered: 'error',
  rolled_back: 'rolled_back',
}

function stretchSpan(
  { state }: TrackedSession,
  { of, parentSpanId }: OpenRun,
  event: SessionEvent,
  { about, startedAt, links }: { about: Attributes; startedAt: number; links: SpanLink[] },
): Span {
  return {
    ...spanOf(of, { kind: 'run' }),
    ...(parentSpanId !== undefined && { parentSpanId }),
    name: `invoke_agent ${state.agent}`,
    kind: 'internal',
    startedAt: Math.min(startedAt, event.at),
    endedAt: event.at,
    attributes: { ...sessionAttributes(state), 'pawl.seq': event.seq, ...about },
    ...(event.type === 'error_entered' && { error: { type: event.code, message: event.reason } }),
    links,
    events: [],
  }
}

/** Ends the turn. A step abandoned in progress also has a span, because that span is the parent of what user code did in the step. */
export function endTurn(tracked: TrackedSession, event: SessionEvent, { contents }: ProjectOptions, steps: Steps): Span[] {
  const { open, state, messages } = tracked
  const turn = open?.turn
  if (!open || !turn) return []
  delete open.turn
  const place = open.of
  const inputs: (string | UserBlock[])[] = turn.takes.flatMap((messageId) => {
    const message = messages.get(messageId)
    return message ? [message.content] : []
  })
  const isAbandoned = ABANDONS_STEPS.has(event.type) || (event.type === 'error_entered' && event.code === 'deadline_exceeded')
  return [
    ...(isAbandoned ? abandonedSteps(tracked, turn, place, event, steps) : []),
    {
      ...spanOf(place, { kind: 'turn', turn: turn.turn }),
      parentSpanId: spanOf(place, { kind: 'run' }).spanId,
      name: `turn ${turn.turn}`,
      kind: 'internal',
      startedAt: Math.min(turn.startedAt, event.at),
      endedAt: event.at,
      attributes: {
        ...sessionAttributes(state),
        'pawl.seq': event.seq,
        'pawl.run': open.run,
        'pawl.turn': turn.turn,
        ...(contents && inputs.length > 0 && { 'gen_ai.input.messages': inputMessages(inputs) }),
      },
      ...(event.type === 'error_entered' && { error: { type: event.code, message: event.reason } }),
      links: turn.links,
      events: turn.events,
    },
  ]
}

/** The spans of the turn's steps that the event ends without an outcome. */
function abandonedSteps(
  { state, calls }: TrackedSession,
  turn: TracedTurn,
  place: Stretch,
  event: SessionEvent,
  { isAsking, issued }: Steps,
): Span[] {
  const parent = spanOf(place, { kind: 'turn', turn: turn.turn })
  const abandoned = (about: SpanSubject, rest: Pick<Span, 'name' | 'kind' | 'startedAt' | 'attributes'>): Span => ({
    ...spanOf(place, about),
    parentSpanId: parent.spanId,
    ...rest,
    startedAt: Math.min(rest.startedAt, event.at),
    endedAt: event.at,
    attributes: { ...sessionAttributes(state), 'pawl.seq': event.seq, ...rest.attributes },
    error: { type: 'interrupted', message: 'The step was stopped before it ended.' },
    links: [],
    events: [],
  })
  const spans: Span[] = []
  if (isAsking) {
    const attempt = turn.attempts + 1
    const attributes = { 'gen_ai.operation.name': 'chat', 'pawl.attempt': attempt }
    const about = { kind: 'model', turn: turn.turn, attempt } as const
    spans.push(abandoned(about, { name: 'chat', kind: 'client', startedAt: turn.nextAt, attributes }))
  }
  for (const callId of issued) {
    const call = calls.get(callId)
    if (!call) continue
    const { tool } = call
    call.attempts += 1
    const attributes = toolAttributes(callId, tool, call.attempts)
    const about = { kind: 'tool', callId, attempt: call.attempts } as const
    spans.push(abandoned(about, { name: `execute_tool ${tool}`, kind: 'internal', startedAt: call.nextAt, attributes }))
  }
  return spans
}

/** Events that end a turn while a step may be in progress. */
const ABANDONS_STEPS: ReadonlySet<SessionEvent['type']> = new Set(['run_interrupted', 'rolled_back', 'session_started'])
