// Projects a session's events to spans. Pure: a span is created when it ends, from the events alone.
import { NO_USAGE } from '../session/content.ts'
import type { SessionEvent } from '../session/events.ts'
import { apply, initialState } from '../session/fold/fold.ts'
import { callerIn } from '../session/protocol/traceparent.ts'
import { rests } from '../session/rest.ts'
import type { RunState } from '../session/state.ts'
import { contentAttribute } from './attributes.ts'
import { abandonedAgentCalls, noteAgentCall } from './agent-call-spans.ts'
import { cutSpans, placeIn } from './cut-spans.ts'
import { endStretch, endTurn, stepsIn } from './ending-spans.ts'
import { spanOf } from './ids.ts'
import { compactionSpan, failedModelSpan, modelSpan } from './model-spans.ts'
import type { Attributes, Span, SpanLink } from './span.ts'
import { span } from './step-span.ts'
import { toolSpans } from './tool-spans.ts'
import { keepMessages, type OpenRun, type ProjectOptions, stretchOf, track, trackedMessage, type TrackedSession } from './tracked.ts'

export type { TrackedSession }

/**
 * The spans that end with the event, which is the session's next one. Changes `tracked` in place; it is undefined if the session is not
 * tracked yet.
 */
export function project(
  tracked: TrackedSession | undefined,
  event: SessionEvent,
  options: ProjectOptions,
): { tracked: TrackedSession | undefined; spans: Span[] } {
  if (event.type === 'session_started') {
    const spans = tracked
      ? [
          ...endStretch(tracked, event, options),
          ...abandonedAgentCalls(tracked, event),
          ...cutSpans(tracked, event, placeIn(tracked.state)),
        ]
      : []
    return { tracked: track(initialState(event), new Map()), spans }
  }
  if (!tracked) return { tracked, spans: [] }
  return { tracked, spans: next(tracked, event, options) }
}

function next(tracked: TrackedSession, event: Exclude<SessionEvent, { type: 'session_started' }>, options: ProjectOptions): Span[] {
  const { state } = tracked
  const before = stepsIn(state)
  if (event.type === 'message_received') {
    tracked.messages.set(event.messageId, trackedMessage(event, options))
  }
  // What was in progress belongs to another session.
  if (event.type === 'forked') Object.assign(tracked, track(state, tracked.messages), { open: undefined })
  const left = placeIn(state)
  apply(state, event)
  const { current } = state
  const spans: Span[] = []
  const { open } = tracked
  if (open && !(current && current.run === open.run && current.stretch === open.stretch))
    spans.push(...endStretch(tracked, event, options, before))
  spans.push(...abandonedAgentCalls(tracked, event))
  if (event.type === 'run_started') tracked.answers = current?.answers && { run: event.run, call: current.answers }
  if (current && !tracked.open && !rests(state)) begin(tracked, current, event)
  spans.push(...spansOf(tracked, event, options))
  const turn = tracked.open?.turn
  if (turn && current && !(current.turn === turn.turn && (current.phase === 'model' || current.phase === 'tools'))) {
    spans.push(...endTurn(tracked, event, options, before))
  }
  if (tracked.open && rests(state)) spans.push(...endStretch(tracked, event, options, before))
  spans.push(...cutSpans(tracked, event, left))
  if (event.type === 'run_started') tracked.newest = { run: event.run, seq: event.seq }
  keepMessages(tracked, event)
  return spans
}

function begin(tracked: TrackedSession, current: RunState, event: SessionEvent): void {
  const { run, stretch, answers } = current
  const of = stretchOf(tracked, run, stretch)
  const call = answers && spanOf(answers, { kind: 'tool', callId: answers.callId, attempt: 1 })
  const links: SpanLink[] = []
  if (event.type === 'run_started') {
    tracked.calls.clear()
    links.push(...callerLinks(tracked, [event.messageId]))
    if (event.intent !== undefined && event.intent !== run) {
      const first = { ...of, run: event.intent }
      links.push({ ...spanOf(first, { kind: 'run' }), attributes: { 'pawl.link': 'first_run' } })
    }
    if (call && answers.background) links.push({ ...call, attributes: { 'pawl.link': 'caller' } })
  }
  if (stretch !== undefined) {
    const previous = { ...of, stretch: stretch - 1 }
    links.push({ ...spanOf(previous, { kind: 'run' }), attributes: { 'pawl.link': 'continues' } })
  }
  for (const call of tracked.calls.values()) Object.assign(call, { nextAt: event.at, attempts: 0 })
  const parentSpanId = answers?.background ? undefined : call?.spanId
  tracked.open = { run, stretch, of, parentSpanId, startedAt: event.at, links, usage: NO_USAGE, usd: undefined }
  const isInTurn = 'turn' in event && event.turn === current.turn
  if (current.turn > 0 && (current.phase === 'model' || current.phase === 'tools' || isInTurn)) {
    beginTurn(tracked.open, current.turn, event.at, [])
    if (tracked.open.turn) tracked.open.turn.attempts = current.modelAttempts ?? 0
  }
}

function beginTurn(open: OpenRun, turn: number, at: number, takes: readonly string[]): void {
  open.turn = { turn, startedAt: at, nextAt: at, attempts: 0, takes, links: [], events: [] }
}

function callerLinks({ messages }: TrackedSession, messageIds: readonly string[]): SpanLink[] {
  return messageIds.flatMap((messageId) => {
    const caller = callerIn(messages.get(messageId)?.traceparent)
    return caller ? [{ ...caller, attributes: { 'pawl.link': 'caller', 'pawl.message_id': messageId } }] : []
  })
}

/** The spans that the event itself ends, apart from those of turns and stretches. */
function spansOf(tracked: TrackedSession, event: SessionEvent, options: ProjectOptions): Span[] {
  const { open, calls } = tracked
  switch (event.type) {
    case 'turn_started': {
      if (!open) return []
      beginTurn(open, event.turn, event.at, event.takes)
      const opener = tracked.state.current?.messageId
      if (open.turn)
        open.turn.links = callerLinks(
          tracked,
          event.takes.filter((messageId) => messageId !== opener),
        )
      return []
    }
    case 'model_attempt_failed':
      return event.purpose === 'compaction' ? [compactionSpan(tracked, event)] : [failedModelSpan(tracked, event)]
    case 'model_completed':
      return [modelSpan(tracked, event, options)]
    case 'compacted':
      return event.usage ? [compactionSpan(tracked, event)] : []
    case 'tool_issued':
      calls.set(event.callId, {
        attempts: 0,
        ...calls.get(event.callId),
        nextAt: event.at,
        tool: event.tool,
        input: options.contents ? contentAttribute(event.input) : '',
      })
      return []
    case 'tool_attempt_failed':
    case 'tool_completed':
    case 'tool_failed':
    case 'tool_unknown':
      return toolSpans(tracked, event, options)
    case 'approval_decided':
      startAgain(tracked, event)
      return noted(tracked, event, { 'pawl.approved': event.approved })
    case 'tool_resolved':
      startAgain(tracked, event)
      return noted(tracked, event, { 'pawl.happened': event.happened, 'pawl.by': event.by })
    case 'answer_received':
      if (event.reply) startAgain(tracked, event)
      return noted(tracked, event, {})
    case 'answer_requested':
      noteAgentCall(tracked, event)
      return noted(tracked, event, {})
    case 'approval_requested':
    case 'sleep_started':
      return noted(tracked, event, {})
    default:
      return []
  }
}

function startAgain({ calls }: TrackedSession, { callId, at }: { callId: string; at: number }): void {
  const call = calls.get(callId)
  if (call) call.nextAt = at
}

/**
 * Records what a person or a client did, or was asked to do, as an event of the turn's span. It gets its own span if it arrives while the
 * run rests (because the run waits for something else, too): the turn's span has then ended.
 */
function noted(tracked: TrackedSession, event: SessionEvent & OfCall, attributes: Attributes): Span[] {
  const { type, at, callId, tool } = event
  const name = `pawl.${type}`
  const about = { 'gen_ai.tool.name': tool, 'gen_ai.tool.call.id': callId, ...attributes }
  const turn = tracked.open?.turn
  if (!turn) return [span(tracked, event, { kind: 'event', seq: event.seq }, { name, kind: 'internal', startedAt: at, attributes: about })]
  turn.events.push({ name, at, attributes: about })
  return []
}

interface OfCall {
  run: number
  turn: number
  callId: string
  tool: string
}
