// Projects a session's events to spans. Pure: a span is created when it ends, from the events alone.
import { addUsage, NO_USAGE, type Usage, type UserBlock } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import { apply, initialState } from '../session/fold/fold.ts'
import { type Cut, cutOf, type NewestRun, NO_RUN } from '../session/past/cut.ts'
import { rests } from '../session/rest.ts'
import { callerIn } from '../session/protocol/traceparent.ts'
import type { CalledModel } from '../session/spending/prices.ts'
import type { RunState, SessionState } from '../session/state.ts'
import {
  contentAttribute,
  costAttributes,
  inputMessages,
  modelAttributes,
  outputMessages,
  present,
  sessionAttributes,
  usageAttributes,
} from './attributes.ts'
import { type SpanSubject, spanOf, type Stretch } from './ids.ts'
import type { Attributes, AttributeValue, Span, SpanEvent, SpanLink } from './span.ts'

/** What a session was doing after an event. The projection of the next event needs it. */
export interface TrackedSession {
  state: SessionState
  /** What spans say about the waiting messages and those of the current run. */
  messages: Map<string, TrackedMessage>
  /** The newest run. */
  newest: NewestRun
  /** The spans that have begun. */
  open?: OpenRun | undefined
  /** The calls of the current run that were issued. */
  calls: Map<string, OpenCall>
  /** `messages` lacks messages that spans may describe: the session must be tracked from scratch. */
  isIncomplete?: true
}

/** What spans say about a message. */
export type TrackedMessage = Pick<EventOf<'message_received'>, 'traceparent' | 'content'>

/** A stretch in progress. */
interface OpenRun extends Required<Pick<Stretch, 'run'>> {
  stretch: number | undefined
  startedAt: number
  links: SpanLink[]
  usage: Usage
  usd: number | undefined
  turn?: TracedTurn
}

interface TracedTurn {
  turn: number
  startedAt: number
  /** When the next attempt of the model call begins. */
  nextAt: number
  /** The number of the newest attempt of the model call that has a span. */
  attempts: number
  takes: readonly string[]
  links: SpanLink[]
  events: SpanEvent[]
}

interface OpenCall {
  /** When its next attempt begins. */
  nextAt: number
  /** The number of its newest attempt that has a span. */
  attempts: number
  tool: string
  input: string
}

/** What spans contain. */
export interface ProjectOptions {
  /** Whether spans contain what users, models and tools said. */
  contents: boolean
}

/** Starts tracking a session after the events that `state` was folded from. `messages`: the waiting ones and those of the current run. */
export function track(state: SessionState, messages: ReadonlyMap<string, TrackedMessage>): TrackedSession {
  return { state, newest: NO_RUN, messages: new Map(messages), calls: new Map() }
}

/** The parts of a message that are kept. Contents may be large, and are kept only if spans contain them. */
export function trackedMessage(
  { content, traceparent }: EventOf<'message_received'>,
  { contents }: Pick<ProjectOptions, 'contents'>,
): TrackedMessage {
  return { content: contents ? content : '', ...defined({ traceparent }) }
}

/** The messages of a state that spans may describe: their ids, and the `seq` of their events. */
export function messagesOf({ inbox, current }: SessionState): { messageId: string; seq?: number }[] {
  return [...inbox, ...(current?.taken ?? [])]
}

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
    const spans = tracked ? [...endStretch(tracked, event, options), ...cutSpans(tracked, event, placeIn(tracked.state))] : []
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

/** The steps of a run that may be in progress. */
interface Steps {
  isAsking: boolean
  issued: string[]
}

function stepsIn({ current }: SessionState): Steps {
  if (!current) return { isAsking: false, issued: [] }
  const issued = current.calls.filter(({ status }) => status === 'issued').map(({ callId }) => callId)
  return { isAsking: current.phase === 'model', issued }
}

function begin(tracked: TrackedSession, current: RunState, event: SessionEvent): void {
  const { run, stretch } = current
  const { sessionId } = tracked.state
  const links: SpanLink[] = []
  if (event.type === 'run_started') {
    tracked.calls.clear()
    links.push(...callerLinks(tracked, [event.messageId]))
    if (event.intent !== undefined && event.intent !== run) {
      links.push({ ...spanOf({ sessionId, run: event.intent }, { kind: 'run' }), attributes: { 'pawl.link': 'first_run' } })
    }
  }
  if (stretch !== undefined) {
    const previous = { sessionId, run, stretch: stretch - 1 }
    links.push({ ...spanOf(previous, { kind: 'run' }), attributes: { 'pawl.link': 'continues' } })
  }
  for (const call of tracked.calls.values()) Object.assign(call, { nextAt: event.at, attempts: 0 })
  tracked.open = { run, stretch, startedAt: event.at, links, usage: NO_USAGE, usd: undefined }
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
    case 'approval_requested':
    case 'answer_requested':
    case 'answer_received':
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

/** A stretch of a run in progress. */
type Place = Pick<RunState, 'run' | 'stretch'>

/** Copied, because the fold changes the run in place. */
function placeIn({ current }: SessionState): Place | undefined {
  return current ? { run: current.run, ...defined({ stretch: current.stretch }) } : undefined
}

/** What the event removes from the session, as a span of the newest run. The spans of the removed part have been exported, and stay. */
function cutSpans({ state, newest }: TrackedSession, event: SessionEvent, left: Place | undefined): Span[] {
  const cut = event.type === 'forked' ? undefined : cutOf(event, newest)
  if (!cut || event.seq === 1) return []
  const { run } = newest
  const place = { sessionId: state.sessionId, run, stretch: left?.run === run ? left.stretch : undefined }
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

type OfModel = EventOf<'model_completed' | 'model_attempt_failed'>

function modelSpan(tracked: TrackedSession, event: EventOf<'model_completed'>, { contents }: ProjectOptions): Span {
  const { usage, stopReason, content } = event
  countUsage(tracked.open, usage, event)
  return askedSpan(tracked, event, event, {
    'gen_ai.response.finish_reasons': [stopReason],
    ...usageAttributes(usage),
    ...costAttributes(event),
    ...(contents && { 'gen_ai.output.messages': outputMessages(content, stopReason) }),
  })
}

function failedModelSpan(tracked: TrackedSession, event: EventOf<'model_attempt_failed'>): Span {
  const { class: type, code, message, nextDelayMs = 0 } = event.error
  const asked = askedSpan(tracked, event, event.error, {})
  const turn = tracked.open?.turn
  if (turn) turn.nextAt = event.at + nextDelayMs
  return { ...asked, error: { type: code ?? type, message }, events: [exceptionOf(event)] }
}

function askedSpan(tracked: TrackedSession, event: OfModel, called: CalledModel & { attempt: number }, attributes: Attributes): Span {
  const { attempt, model } = called
  const turn = tracked.open?.turn
  if (turn) turn.attempts = attempt
  return span(
    tracked,
    event,
    { kind: 'model', turn: event.turn, attempt },
    {
      name: model === undefined ? 'chat' : `chat ${model}`,
      kind: 'client',
      startedAt: turn?.nextAt ?? event.at,
      attributes: { 'gen_ai.operation.name': 'chat', ...modelAttributes(called), 'pawl.attempt': attempt, ...attributes },
    },
  )
}

/** The span of a model call that summarises the conversation. */
function compactionSpan(tracked: TrackedSession, event: EventOf<'compacted' | 'model_attempt_failed'>): Span {
  const failed = event.type === 'model_attempt_failed' ? event.error : undefined
  const called = failed ?? (event as EventOf<'compacted'>)
  const { model, attempt } = called
  const usage = event.type === 'compacted' ? event.usage : undefined
  if (usage) countUsage(tracked.open, usage, event)
  const turn = tracked.open?.turn
  const made = span(
    tracked,
    event,
    { kind: 'compaction', turn: event.turn, seq: event.seq },
    {
      name: model === undefined ? 'chat' : `chat ${model}`,
      kind: 'client',
      startedAt: turn?.nextAt ?? event.at,
      attributes: {
        'gen_ai.operation.name': 'chat',
        ...modelAttributes(called),
        'pawl.attempt': attempt,
        'pawl.purpose': 'compaction',
        ...(usage && usageAttributes(usage)),
        ...costAttributes(event),
      },
    },
  )
  if (turn) turn.nextAt = event.at + (failed?.nextDelayMs ?? 0)
  if (event.type === 'compacted') return made
  const { code, class: type, message } = event.error
  return { ...made, error: { type: code ?? type, message }, events: [exceptionOf(event)] }
}

/** What the attempt threw, as OpenTelemetry records exceptions. */
function exceptionOf({ at, error }: EventOf<'model_attempt_failed' | 'tool_attempt_failed'>): SpanEvent {
  const { class: type, message, stack } = error
  const attributes = {
    'exception.type': type,
    'exception.message': message,
    'exception.stacktrace': stack && `${type}: ${message}\n${stack}`,
  }
  return { name: 'exception', at, attributes: present(attributes) }
}

function countUsage(open: OpenRun | undefined, usage: Usage, event: SessionEvent): void {
  if (!open) return
  open.usage = addUsage(open.usage, usage)
  const usd = costAttributes(event)['pawl.usd']
  if (typeof usd === 'number') open.usd = (open.usd ?? 0) + usd
}

type OfTool = EventOf<'tool_attempt_failed' | 'tool_completed' | 'tool_failed' | 'tool_unknown'>

/** The span of an attempt; none if the attempt already has one, because its failure was recorded before the call's outcome. */
function toolSpans(tracked: TrackedSession, event: OfTool, { contents }: ProjectOptions): Span[] {
  const { calls } = tracked
  const { callId, tool } = event
  const call: OpenCall = calls.get(callId) ?? { nextAt: event.at, attempts: 0, tool, input: '' }
  calls.set(callId, call)
  const attempt = newAttempt(call, event)
  if (attempt === undefined) return []
  call.attempts = attempt
  const { startedAt = call.nextAt } = event.type === 'tool_completed' ? event : {}
  // A read that was part of the model call ran before its request was recorded.
  const isRide = call.nextAt === event.at
  const made = span(
    tracked,
    event,
    { kind: 'tool', callId, attempt },
    {
      name: `execute_tool ${tool}`,
      kind: 'internal',
      // The executor's clock differs from the workflow's.
      startedAt: Math.max(startedAt, isRide ? (tracked.open?.turn?.startedAt ?? event.at) : call.nextAt),
      attributes: { ...toolAttributes(callId, tool, attempt), ...outcomeOf(event), ...(contents && contentsOf(call, event)) },
    },
  )
  if (event.type === 'tool_attempt_failed') call.nextAt = event.at + (event.error.nextDelayMs ?? 0)
  const error = errorOf(event)
  const events = event.type === 'tool_attempt_failed' ? [exceptionOf(event)] : []
  return [error ? { ...made, error, events } : made]
}

function newAttempt({ attempts }: OpenCall, event: OfTool): number | undefined {
  const attempt = event.type === 'tool_attempt_failed' ? event.error.attempt : event.attempt
  if (attempt > attempts) return attempt
  // The events do not count an attempt that was stopped. An attempt with the number 0 was not executed.
  const isAnother = attempt === 0 || (event.type === 'tool_failed' && event.code === 'interrupted')
  return isAnother ? attempts + 1 : undefined
}

function toolAttributes(callId: string, tool: string, attempt: number): Attributes {
  return {
    'gen_ai.operation.name': 'execute_tool',
    'gen_ai.tool.name': tool,
    'gen_ai.tool.call.id': callId,
    'gen_ai.tool.type': 'function',
    'pawl.attempt': attempt,
  }
}

function outcomeOf(event: OfTool): Attributes {
  if (event.type !== 'tool_completed') return {}
  return present({ 'pawl.effect_id': event.effectId, 'pawl.replay_of': event.replayOf })
}

function contentsOf({ input }: OpenCall, event: OfTool): Attributes {
  const result = event.type === 'tool_completed' ? (event.content ?? event.value) : undefined
  return present({
    'gen_ai.tool.call.arguments': input,
    'gen_ai.tool.call.result': result === undefined ? undefined : contentAttribute(result),
  })
}

function errorOf(event: OfTool): Span['error'] {
  switch (event.type) {
    case 'tool_completed':
      return undefined
    case 'tool_attempt_failed':
      return { type: event.error.code ?? event.error.class, message: event.error.message }
    case 'tool_failed':
      return { type: event.code, message: event.message }
    case 'tool_unknown':
      return { type: 'unknown_outcome', message: event.message }
  }
}

/** Ends the stretch: its own span, and those of steps that were abandoned with it. */
function endStretch(tracked: TrackedSession, event: SessionEvent, options: ProjectOptions, before: Steps = stepsIn(tracked.state)): Span[] {
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
  { run, stretch }: OpenRun,
  event: SessionEvent,
  { about, startedAt, links }: { about: Attributes; startedAt: number; links: SpanLink[] },
): Span {
  return {
    ...spanOf({ sessionId: state.sessionId, run, stretch }, { kind: 'run' }),
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
function endTurn(tracked: TrackedSession, event: SessionEvent, { contents }: ProjectOptions, { isAsking, issued }: Steps): Span[] {
  const { open, state, messages, calls } = tracked
  const turn = open?.turn
  if (!open || !turn) return []
  delete open.turn
  const spans: Span[] = []
  const place = { sessionId: state.sessionId, run: open.run, stretch: open.stretch }
  const parent = spanOf(place, { kind: 'turn', turn: turn.turn })
  const abandonedSpan = (about: SpanSubject, rest: Pick<Span, 'name' | 'kind' | 'startedAt' | 'attributes'>): Span => ({
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
  const isAbandoned = ABANDONS_STEPS.has(event.type) || (event.type === 'error_entered' && event.code === 'deadline_exceeded')
  if (isAsking && isAbandoned) {
    const attempt = turn.attempts + 1
    spans.push(
      abandonedSpan(
        { kind: 'model', turn: turn.turn, attempt },
        { name: 'chat', kind: 'client', startedAt: turn.nextAt, attributes: { 'gen_ai.operation.name': 'chat', 'pawl.attempt': attempt } },
      ),
    )
  }
  for (const callId of isAbandoned ? issued : []) {
    const call = calls.get(callId)
    if (!call) continue
    const { tool } = call
    call.attempts += 1
    const attributes = toolAttributes(callId, tool, call.attempts)
    const about = { kind: 'tool', callId, attempt: call.attempts } as const
    spans.push(abandonedSpan(about, { name: `execute_tool ${tool}`, kind: 'internal', startedAt: call.nextAt, attributes }))
  }
  const said: (string | UserBlock[])[] = turn.takes.flatMap((messageId) => {
    const message = messages.get(messageId)
    return message ? [message.content] : []
  })
  spans.push({
    ...parent,
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
      ...(contents && said.length > 0 && { 'gen_ai.input.messages': inputMessages(said) }),
    },
    ...(event.type === 'error_entered' && { error: { type: event.code, message: event.reason } }),
    links: turn.links,
    events: turn.events,
  })
  return spans
}

/** Events that end a turn while a step may be in progress. */
const ABANDONS_STEPS: ReadonlySet<SessionEvent['type']> = new Set(['run_interrupted', 'rolled_back', 'session_started'])

/** A span of the stretch that the event belongs to. */
function span(
  { state, open }: TrackedSession,
  event: SessionEvent & { run: number; turn: number },
  about: SpanSubject,
  { name, kind, startedAt, attributes }: Pick<Span, 'name' | 'kind' | 'startedAt' | 'attributes'>,
): Span {
  const place = {
    sessionId: state.sessionId,
    run: event.run,
    stretch: state.current?.run === event.run ? state.current.stretch : undefined,
  }
  // While a run rests, its turn has ended, possibly in an earlier stretch.
  const parent: SpanSubject = open?.turn?.turn === event.turn ? { kind: 'turn', turn: event.turn } : { kind: 'run' }
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

/** Keeps only the messages that spans may still describe. */
function keepMessages(tracked: TrackedSession, { type }: SessionEvent): void {
  if (!CHANGES_INBOX.has(type)) return
  const needed = new Set(messagesOf(tracked.state).map(({ messageId }) => messageId))
  for (const messageId of tracked.messages.keys()) if (!needed.has(messageId)) tracked.messages.delete(messageId)
  if ([...needed].some((messageId) => !tracked.messages.has(messageId))) tracked.isIncomplete = true
}

const CHANGES_INBOX: ReadonlySet<SessionEvent['type']> = new Set([
  'run_completed',
  'run_interrupted',
  'rolled_back',
  'recovery_started',
  'run_started',
  'forked',
])
