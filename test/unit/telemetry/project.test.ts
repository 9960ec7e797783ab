// From events to spans: what each event ends, and what holds for every session.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { defined } from '../../../src/session/defined.ts'
import type { EventBody, EventOf, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { openAgentCalls } from '../../../src/session/agents/agent-calls.ts'
import { traceOf } from '../../../src/session/agents/traces.ts'
import { emptyState, fold } from '../../../src/session/fold/fold.ts'
import { addToVisible, nothingVisible } from '../../../src/session/past/visible.ts'
import { type SpanRef, spanOf, traceIdOf } from '../../../src/telemetry/ids.ts'
import { project, type TrackedSession } from '../../../src/telemetry/project.ts'
import type { Span } from '../../../src/telemetry/span.ts'
import { type TracedPast, trackSessions } from '../../../src/telemetry/tracking.ts'
import { eventfulSessions, metInSessions } from '../session/sound-session.ts'
import { size } from '../../support/sizes.ts'
import { sessionStarted } from '../../support/session-started.ts'

/** The spans of the events, which are projected one by one. */
function spansIn(events: readonly SessionEvent[]): Span[] {
  let tracked: TrackedSession | undefined
  return events.flatMap((event) => {
    const made = project(tracked, event, { contents: false })
    tracked = made.tracked
    return made.spans
  })
}

/** What an exporter reads of the past. */
function pastOf(events: readonly SessionEvent[]): TracedPast {
  return {
    async *events(_, after, upTo) {
      yield* events.filter(({ seq }) => seq > after && seq <= upTo)
    },
    newestRun: async (_, upTo) => events.findLast(({ type, seq }) => type === 'run_started' && seq <= upTo)?.seq,
    stateAt: async (_, upTo) => fold(undefined, copy(events.filter(({ seq }) => seq <= upTo))),
  }
}

/** The spans of the events as exporters make them from batches of these sizes. If they `lose` all, each batch has a new exporter. */
async function spansInBatches(events: readonly SessionEvent[], sizes: readonly number[], lose: 'nothing' | 'all'): Promise<Span[]> {
  const spans: Span[] = []
  let tracking = trackSessions(pastOf(events), { contents: true })
  for (let from = 0, batch = 0; from < events.length; batch += 1) {
    const to = from + (sizes[batch % sizes.length] ?? 1)
    spans.push(...(await tracking.add('s', events.slice(from, to))))
    if (lose === 'all') tracking = trackSessions(pastOf(events), { contents: true })
    from = to
  }
  return spans
}

/** The run that the event belongs to. */
function runOf(events: readonly SessionEvent[], at: unknown): number | undefined {
  const event = events.find(({ seq }) => seq === at)
  return event && 'run' in event ? event.run : undefined
}

const copy = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T

/** Numbers the events; each is a second after the one before. */
function eventsOf(bodies: readonly (EventBody & { at?: number })[]): SessionEvent[] {
  return bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 1_000 * (index + 1), ...body }) as SessionEvent)
}

const STARTED: EventBody = sessionStarted({ agent: 'support' })
const CALLER = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const asked = (messageId = 'm', more: object = {}): EventBody => ({ type: 'message_received', messageId, content: 'Hello', ...more })
const opened: EventBody = { type: 'run_started', run: 1, messageId: 'm' }
const turn = (number: number, takes: string[] = []): EventBody => ({ type: 'turn_started', run: 1, turn: number, takes })
const usage = { input_tokens: 10, output_tokens: 5, cache_creation_input_tokens: 0, cache_read_input_tokens: 2 }
const resolution = (more: Partial<Resolution> = {}): Resolution => ({
  index: 0,
  tool: 'look',
  effect: 'read',
  inputDigest: 'd',
  schemaDigest: 'd',
  timeoutMs: 1_000,
  retry: { maxRetries: 3, baseDelayMs: 1 },
  verify: false,
  ...more,
})
function answered(number: number, calls: Resolution[] = [], attempt = 1): EventBody {
  const content = calls.map(({ tool }, index) => ({ type: 'tool_use' as const, id: `u${index}`, name: tool, input: { q: 1 } }))
  return {
    type: 'model_completed',
    run: 1,
    turn: number,
    attempt,
    model: 'claude-sonnet-4-5',
    content: content.length > 0 ? content : [{ type: 'text', text: 'Hi' }],
    stopReason: calls.length > 0 ? 'tool_use' : 'end_turn',
    usage,
    calls,
  }
}
const CALL = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'look' }
const issued: EventBody = { type: 'tool_issued', ...CALL, index: 0, effect: 'read', input: { q: 1 }, inputDigest: 'd' }
const failure = (attempt: number, nextDelayMs?: number) => ({
  attempt,
  class: 'Error',
  code: 'ECONNRESET',
  message: 'lost',
  retryable: true,
  ...defined({ nextDelayMs }),
})
const completed: EventBody = { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage }
const inFirst = { sessionId: 's', run: 1 }
const inSecond = { ...inFirst, stretch: 2 }

const brief = (spans: readonly Span[]) =>
  spans.map(({ name, startedAt, endedAt, error }) => [name, startedAt / 1_000, endedAt / 1_000, ...(error ? [error.type] : [])].join(' '))

describe('the spans of events', () => {
  const TABLE: { what: string; events: EventBody[]; spans: string[] }[] = [
    {
      what: 'an answer ends its model call and its turn, and then the run ends',
      events: [STARTED, asked(), opened, turn(1, ['m']), answered(1), completed],
      spans: ['chat claude-sonnet-4-5 4 5', 'turn 1 4 5', 'invoke_agent support 3 6'],
    },
    {
      what: 'a read that was part of its model call has the time of its body',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        answered(1, [resolution()]),
        { ...issued, at: 5_000 } as EventBody,
        { type: 'tool_completed', ...CALL, attempt: 1, startedAt: 4_500, worker: 'w', value: 1, at: 5_000 } as EventBody,
      ],
      spans: ['chat claude-sonnet-4-5 4 5', 'execute_tool look 4.5 5', 'turn 1 4 5'],
    },
    {
      what: 'a turn ends with the last result of its calls',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        answered(1, [resolution()]),
        issued,
        { type: 'tool_completed', ...CALL, attempt: 1, value: 1 },
      ],
      spans: ['chat claude-sonnet-4-5 4 5', 'execute_tool look 6 7', 'turn 1 4 7'],
    },
    {
      what: 'each attempt of a model call has a span, which begins after the delay',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        { type: 'model_attempt_failed', run: 1, turn: 1, error: failure(1, 500) },
        answered(1, [], 2),
      ],
      spans: ['chat 4 5 ECONNRESET', 'chat claude-sonnet-4-5 5.5 6', 'turn 1 4 6'],
    },
    {
      what: 'each attempt of a tool has a span, and the outcome has none of its own if it repeats the last failure',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        answered(1, [resolution()]),
        issued,
        { type: 'tool_attempt_failed', ...CALL, error: failure(1, 0) },
        { type: 'tool_attempt_failed', ...CALL, error: failure(2) },
        { type: 'tool_failed', ...CALL, attempt: 2, code: 'ECONNRESET', message: 'lost' },
      ],
      spans: ['chat claude-sonnet-4-5 4 5', 'execute_tool look 6 7 ECONNRESET', 'execute_tool look 7 8 ECONNRESET', 'turn 1 4 9'],
    },
    {
      what: 'a model call that is stopped has a span, because what it did has that span as its parent',
      events: [STARTED, asked(), opened, turn(1, ['m']), { type: 'run_interrupted', run: 1 }],
      spans: ['chat 4 5 interrupted', 'turn 1 4 5', 'invoke_agent support 3 5'],
    },
    {
      what: 'a tool call that is stopped has a span of the attempt that was in progress',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        answered(1, [resolution()]),
        issued,
        { type: 'tool_attempt_failed', ...CALL, error: failure(1, 0) },
        { type: 'tool_failed', ...CALL, attempt: 1, code: 'interrupted', message: 'stopped' },
        { type: 'run_interrupted', run: 1 },
      ],
      spans: [
        'chat claude-sonnet-4-5 4 5',
        'execute_tool look 6 7 ECONNRESET',
        'execute_tool look 7 8 interrupted',
        'turn 1 4 8',
        'invoke_agent support 3 9',
      ],
    },
    {
      what: 'an error ends the stretch, and what was lost after it begins another one',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        { type: 'model_attempt_failed', run: 1, turn: 1, error: failure(1) },
        { type: 'error_entered', run: 1, turn: 1, code: 'model_call_failed', reason: 'lost', strategy: 'continue_run' },
        { type: 'recovery_started', run: 1, strategy: 'continue_run' },
        { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
        answered(1, [], 2),
        completed,
      ],
      spans: [
        'chat 4 5 ECONNRESET',
        'turn 1 4 6 model_call_failed',
        'invoke_agent support 3 6 model_call_failed',
        'chat claude-sonnet-4-5 8 9',
        'turn 1 8 9',
        'invoke_agent support 8 10',
      ],
    },
    {
      what: 'a summary of the conversation is a call of a model, too',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        {
          type: 'compacted',
          run: 1,
          turn: 1,
          attempt: 1,
          upToSeq: 2,
          summary: 'x',
          messages: 1,
          tokens: 9,
          window: 8,
          model: 'small',
          usage,
        },
        answered(1),
      ],
      spans: ['chat small 4 5', 'chat claude-sonnet-4-5 5 6', 'turn 1 4 6'],
    },
    {
      what: 'a result that was given from an earlier effect has a span that says so',
      events: [
        STARTED,
        asked(),
        opened,
        turn(1, ['m']),
        answered(1, [resolution({ effect: 'idempotent' })]),
        issued,
        { type: 'tool_completed', ...CALL, attempt: 0, replayOf: 't_1_0_0' },
      ],
      spans: ['chat claude-sonnet-4-5 4 5', 'execute_tool look 6 7', 'turn 1 4 7'],
    },
  ]

  for (const { what, events, spans } of TABLE) it(what, () => expect(brief(spansIn(eventsOf(events)))).toEqual(spans))
})

describe('an approval', () => {
  const terms = { expiresMs: 9, onExpiry: 'deny' as const }
  const request: EventBody = { type: 'approval_requested', ...CALL, digest: 'd', expiresAt: 99, onExpiry: 'deny' }
  const waits = [
    STARTED,
    asked(),
    opened,
    turn(1, ['m']),
    answered(1, [resolution({ effect: 'external', approval: terms })]),
    issued,
    request,
  ]
  const approved: EventBody = { type: 'approval_decided', ...CALL, digest: 'd', approved: true, by: 'ann' }

  it('an approval ends the stretch while the run waits for it', () => {
    const spans = spansIn(eventsOf(waits))
    expect(brief(spans)).toEqual(['chat claude-sonnet-4-5 4 5', 'turn 1 4 7', 'invoke_agent support 3 7'])
    expect(spans.at(-1)?.attributes['pawl.outcome']).toBe('waiting')
    expect(spans.at(-2)?.events.map(({ name }) => name)).toEqual(['pawl.approval_requested'])
  })

  it('an approval is followed by a trace of its own, which is linked to the one before', () => {
    const spans = spansIn(
      eventsOf([...waits, approved, { type: 'tool_completed', ...CALL, attempt: 1, value: 1 }, turn(2), answered(2), completed]),
    )
    const later = spans.filter(({ traceId }) => traceId === traceIdOf(inSecond))
    expect(brief(later)).toEqual([
      'execute_tool look 8 9',
      'turn 1 8 9',
      'chat claude-sonnet-4-5 10 11',
      'turn 2 10 11',
      'invoke_agent support 8 12',
    ])
    expect(later.at(-1)?.links).toEqual([{ ...spanOf(inFirst, { kind: 'run' }), attributes: { 'pawl.link': 'continues' } }])
  })

  it('an approval that is denied ends the call in the stretch that follows', () => {
    const denial: EventBody = { type: 'tool_failed', ...CALL, attempt: 0, code: 'denied', message: 'no' }
    const spans = spansIn(eventsOf([...waits, { ...approved, approved: false } as EventBody, denial]))
    expect(brief(spans.slice(-2))).toEqual(['execute_tool look 9 9 denied', 'turn 1 9 9'])
    expect(spans.at(-1)?.traceId).toBe(traceIdOf(inSecond))
  })
})

describe('a pause', () => {
  const paused: EventBody = { type: 'session_paused' }
  const unpaused: EventBody = { type: 'session_unpaused' }

  it('a pause lets the step in progress end in its stretch', () => {
    const spans = spansIn(eventsOf([STARTED, asked(), opened, turn(1, ['m']), paused, answered(1, [resolution()]), unpaused, issued]))
    expect(brief(spans)).toEqual(['chat claude-sonnet-4-5 4 6', 'turn 1 4 6', 'invoke_agent support 3 6'])
    expect(spans.at(-1)?.attributes['pawl.outcome']).toBe('paused')
  })
})

describe('what a person decides in an error', () => {
  it('a person’s decision about an error has a span of its own, because the span of the turn has ended', () => {
    const pay = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
    const events = eventsOf([
      STARTED,
      asked(),
      opened,
      turn(1, ['m']),
      answered(1, [resolution({ tool: 'pay', effect: 'external' })]),
      { ...issued, ...pay, effect: 'external' } as EventBody,
      { type: 'tool_unknown', ...pay, attempt: 1, message: 'no answer', errorClass: 'WorkerDied' } as EventBody,
      { type: 'error_entered', run: 1, turn: 1, code: 'model_call_failed', reason: 'lost', strategy: 'continue_run' },
      { type: 'tool_resolved', ...pay, happened: true, by: 'person', decidedBy: 'ann', value: 1 } as EventBody,
    ])
    const span = spansIn(events).at(-1)
    expect(span).toMatchObject({ name: 'pawl.tool_resolved', startedAt: 9_000, endedAt: 9_000 })
    expect(span?.attributes).toMatchObject({ 'pawl.happened': true, 'pawl.by': 'person', 'gen_ai.tool.call.id': 't_1_1_0', 'pawl.seq': 9 })
    expect(span?.traceId).toBe(traceIdOf(inFirst))
  })
})

describe('what spans say', () => {
  const TEXT = [STARTED, asked('m', { traceparent: CALLER }), opened, turn(1, ['m']), answered(1), completed]
  const [chat, ofTurn, run] = spansIn(eventsOf(TEXT)) as [Span, Span, Span]

  it('spans follow the conventions for generative AI', () => {
    expect(run.attributes).toEqual({
      'session.id': 's',
      'gen_ai.conversation.id': 's',
      'gen_ai.agent.name': 'support',
      'gen_ai.operation.name': 'invoke_agent',
      'pawl.seq': 6,
      'pawl.run': 1,
      'pawl.outcome': 'completed',
      'gen_ai.usage.input_tokens': 12,
      'gen_ai.usage.output_tokens': 5,
      'gen_ai.usage.cache_read.input_tokens': 2,
      'pawl.usd': expect.any(Number),
    })
    expect(chat.kind).toBe('client')
    expect(chat.attributes).toMatchObject({
      'gen_ai.operation.name': 'chat',
      'gen_ai.provider.name': 'anthropic',
      'gen_ai.request.model': 'claude-sonnet-4-5',
      'gen_ai.response.finish_reasons': ['end_turn'],
      'pawl.attempt': 1,
    })
  })

  it('a run is linked to the span of the caller who sent the message', () => {
    expect(run.links).toEqual([
      {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: 'b7ad6b7169203331',
        attributes: { 'pawl.link': 'caller', 'pawl.message_id': 'm' },
      },
    ])
    expect(ofTurn.links).toEqual([])
  })

  it('a turn that accepts a steering message is linked to the span of its caller', () => {
    const steered = [STARTED, asked(), opened, turn(1, ['m']), asked('n', { traceparent: CALLER }), answered(1, [resolution()]), issued]
    const rest: EventBody[] = [{ type: 'tool_completed', ...CALL, attempt: 1, value: 1 }, turn(2, ['n']), answered(2)]
    expect(spansIn(eventsOf([...steered, ...rest])).at(-1)?.links).toHaveLength(1)
  })

  it('spans have contents only on request', async () => {
    const events = eventsOf(TEXT)
    expect(JSON.stringify(await spansInBatches(events, [1], 'nothing'))).toMatch(/Hello.*Hi|Hi.*Hello/)
    expect(JSON.stringify(spansIn(events))).not.toMatch(/Hello|Hi"/)
  })

  it('spans ignore an invalid traceparent', () => {
    for (const traceparent of ['', 'nonsense', `ff${CALLER.slice(2)}`, `00-${'0'.repeat(32)}-b7ad6b7169203331-01`, 7]) {
      const spans = spansIn(eventsOf([STARTED, asked('m', { traceparent }), ...TEXT.slice(2)]))
      expect(spans.at(-1)?.links).toEqual([])
    }
  })
})

describe('agents that call agents', () => {
  const ABOVE = { sessionId: 'above', key: 'k', epoch: 'e', depth: 1, taskQueue: 'q' }
  const call = { seq: 7, run: 2, turn: 1, callId: 't_2_1_0', tool: 'support' }
  const child = (more: object = {}): EventBody[] => [
    { ...STARTED, caller: ABOVE } as EventBody,
    asked('m', { call: { ...call, ...more } }),
    opened,
    turn(1, ['m']),
    answered(1),
    completed,
  ]

  it('the spans of an answer lie under the span of the call, in its trace', () => {
    const spans = spansIn(eventsOf(child({ stretch: 2 })))
    const parent = spanOf({ sessionId: 'above', run: 2, stretch: 2 }, { kind: 'tool', callId: 't_2_1_0', attempt: 1 })
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([parent.traceId]))
    expect(spans.at(-1)).toMatchObject({ name: 'invoke_agent support', parentSpanId: parent.spanId, links: [] })
  })

  it('the spans of a whole tree are in the trace of its root', () => {
    const trace = { sessionId: 'root', run: 3 }
    const spans = spansIn(eventsOf(child({ trace })))
    expect(new Set(spans.map(({ traceId }) => traceId))).toEqual(new Set([traceIdOf(trace)]))
  })

  it('the answer of an agent in the background has a trace of its own, which is linked to the call', () => {
    const run = spansIn(eventsOf(child({ background: true }))).at(-1)
    const parent = spanOf({ sessionId: 'above', run: 2 }, { kind: 'tool', callId: 't_2_1_0', attempt: 1 })
    expect(run).toMatchObject({ traceId: traceIdOf(inFirst), links: [{ ...parent, attributes: { 'pawl.link': 'caller' } }] })
    expect(run?.parentSpanId).toBeUndefined()
  })

  it('a later run of the same session, which answers no call, has a trace of its own', () => {
    const more = [asked('n'), { ...opened, run: 2, messageId: 'n' } as EventBody, { ...completed, run: 2 } as EventBody]
    const run = spansIn(eventsOf([...child(), ...more])).at(-1)
    expect(run?.traceId).toBe(traceIdOf({ sessionId: 's', run: 2 }))
    expect(run?.parentSpanId).toBeUndefined()
  })

  const agentCall = resolution({ tool: 'helper', effect: 'idempotent', key: 'k', client: { agent: { name: 'helper' } } })
  const HELPER = { ...CALL, tool: 'helper' }
  const asking: EventBody[] = [
    STARTED,
    asked(),
    opened,
    turn(1, ['m']),
    answered(1, [agentCall]),
    { ...issued, tool: 'helper', effect: 'idempotent' } as EventBody,
    { type: 'answer_requested', ...HELPER, child: { session: 's/1', agent: 'helper' } },
  ]

  it('a call that is answered in a later stretch has its span where it was asked', () => {
    const later: EventBody[] = [
      { type: 'session_paused', by: 'ann' },
      { type: 'session_unpaused', by: 'ann' },
      { type: 'tool_completed', ...HELPER, attempt: 1, value: 'done' } as EventBody,
    ]
    const span = spansIn(eventsOf([...asking, ...later])).find(({ name }) => name === 'execute_tool helper')
    expect(span).toMatchObject({
      ...spanOf(inFirst, { kind: 'tool', callId: 't_1_1_0', attempt: 1 }),
      parentSpanId: spanOf(inFirst, { kind: 'turn', turn: 1 }).spanId,
      startedAt: 6_000,
      endedAt: 10_000,
      attributes: { 'pawl.child': 's/1' },
    })
  })

  it('a call that is abandoned before it is answered has a span, because those of the answer lie under it', () => {
    const span = spansIn(eventsOf([...asking, { type: 'run_interrupted', run: 1, by: 'ann' } as EventBody])).find(
      ({ name }) => name === 'execute_tool helper',
    )
    expect(span).toMatchObject({ ...spanOf(inFirst, { kind: 'tool', callId: 't_1_1_0', attempt: 1 }), error: { type: 'interrupted' } })
  })
})

describe('in every session', () => {
  const always = (holds: (events: SessionEvent[], spans: Span[]) => void) =>
    fc.assert(
      fc.property(eventfulSessions, ({ events }) => {
        holds(events, spansIn(events))
      }),
      { numRuns: size(50, 150) },
    )
  const idOf = ({ traceId, spanId }: Pick<Span, 'traceId' | 'spanId'>) => `${traceId} ${spanId}`

  /** The traces of the runs in progress at the end. A fork leaves the run of the other session in progress, too. */
  function tracesInProgress(events: readonly SessionEvent[]): Set<string> {
    const ends = [...events.filter(({ type }) => type === 'forked').map(({ seq }) => seq - 1), events.length]
    return new Set(
      ends.flatMap((end) => {
        const state = fold(undefined, copy(events.slice(0, end)))
        return state?.current ? [traceIdOf({ sessionId: state.sessionId, ...state.current, trace: traceOf(state.current) })] : []
      }),
    )
  }

  /** The spans of the calls that the session answers, which its caller exports. */
  function callsAnswered(events: readonly SessionEvent[]): SpanRef[] {
    const { caller } = events.find((event) => event.type === 'session_started') ?? {}
    return events.flatMap((event) => {
      if (event.type !== 'message_received' || !event.call || !caller) return []
      const { run, stretch, trace, callId } = event.call
      return [spanOf({ sessionId: caller.sessionId, run, stretch, trace }, { kind: 'tool', callId, attempt: 1 })]
    })
  }

  it('no two spans of a session have the same id', () => {
    always((_, spans) => expect(new Set(spans.map(idOf)).size).toBe(spans.length))
  })

  it('every span ends no earlier than it begins, and its parent ends as well, unless its run is still in progress', () => {
    always((events, spans) => {
      const ids = new Set([...spans.map(idOf), ...callsAnswered(events).map(idOf)])
      const inProgress = tracesInProgress(events)
      for (const one of spans) {
        expect(one.startedAt).toBeLessThanOrEqual(one.endedAt)
        if (one.parentSpanId !== undefined && !inProgress.has(one.traceId)) expect(ids).toContain(`${one.traceId} ${one.parentSpanId}`)
      }
    })
  })

  it('every run that has ended has a span for each stretch, and every stretch after the first has a link to the one before', () => {
    const met = metInSessions(({ events }) => {
      const spans = spansIn(events)
      const runs = spans.filter(({ name }) => name.startsWith('invoke_agent'))
      const ended = events.filter((event) => event.type === 'run_completed' || event.type === 'run_interrupted')
      for (const { run } of ended) {
        expect(runs.some(({ attributes }) => attributes['pawl.run'] === run)).toBe(true)
      }
      const ids = new Set(runs.map(idOf))
      const later = runs.filter(({ attributes }) => attributes['pawl.stretch'] !== undefined)
      for (const { links } of later) {
        expect(links.some((link) => link.attributes?.['pawl.link'] === 'continues' && ids.has(idOf(link)))).toBe(true)
      }
      return later.length
    })
    expect(met).toBeGreaterThan(50)
  })

  it('the spans of any session tell which model answers were removed later', () => {
    const met = metInSessions(({ events }) => {
      const spans = spansIn(events)
      const cuts = spans.filter(({ attributes }) => attributes['pawl.cut.after'] !== undefined)
      const isTakenOut = ({ traceId, attributes: { 'pawl.seq': seq } }: Span): boolean =>
        cuts.some(
          ({ traceId: newest, attributes: { 'pawl.seq': at, 'pawl.cut.after': after, 'pawl.cut.run': run, 'pawl.cut.calls': calls } }) => {
            if (calls !== undefined || !(Number(after) < Number(seq) && Number(seq) < Number(at))) return false
            return run === undefined || traceId === newest || runOf(events, seq) === run
          },
        )
      const answers = spans.filter(({ attributes }) => attributes['gen_ai.response.finish_reasons'] !== undefined)
      const past = nothingVisible()
      for (const event of events) addToVisible(past, event)
      const counting = past.entries.flatMap(({ event, out }) => (event.type === 'model_completed' && !out ? [event.seq] : []))
      const asSpans = answers.filter((span) => !isTakenOut(span)).map(({ attributes }) => attributes['pawl.seq'])
      expect(asSpans).toEqual(counting)
      return answers.length - counting.length
    })
    expect(met).toBeGreaterThan(50)
  })

  it('every call of another agent has one span, in the stretch that asked, unless it is still open', () => {
    const met = metInSessions(({ events }) => {
      const spans = spansIn(events).filter(({ attributes }) => attributes['pawl.child'] !== undefined)
      const asked = events.flatMap((event, index) => {
        if (event.type !== 'answer_requested' || !event.child) return []
        const state = fold(undefined, copy(events.slice(0, index + 1)))
        if (!state?.current) return []
        const { stretch, answers } = state.current
        const of = { sessionId: state.sessionId, run: event.run, ...defined({ stretch }), trace: traceOf({ answers }) }
        return [spanOf(of, { kind: 'tool', callId: event.callId, attempt: 1 })]
      })
      const ids = new Set(asked.map(idOf))
      for (const one of spans) expect(ids).toContain(idOf(one))
      const open = openAgentCalls(fold(undefined, copy(events)) ?? emptyState())
      // A fork leaves the calls of the other session open.
      if (!events.some(({ type }) => type === 'forked')) expect(spans.length).toBe(ids.size - open.length)
      return asked.length
    })
    expect(met).toBeGreaterThan(2)
  })

  it('every attempt that an executor may have entered has a span', () => {
    const met = metInSessions(({ events }) => {
      const spans = new Set(spansIn(events).map(({ spanId }) => spanId))
      const outcomes = events.filter((event): event is EventOf<'tool_completed'> => event.type === 'tool_completed' && event.attempt > 0)
      let found = 0
      for (const event of outcomes) {
        const state = fold(undefined, copy(events.filter(({ seq }) => seq < event.seq)))
        if (!state?.current || state.current.run !== event.run) continue
        const { callId, attempt, run } = event
        const stretch = state.current.calls.find((call) => call.callId === callId)?.asked?.child?.stretch ?? state.current.stretch
        expect(spans).toContain(spanOf({ sessionId: state.sessionId, run, stretch }, { kind: 'tool', callId, attempt }).spanId)
        found += 1
      }
      return found
    })
    expect(met).toBeGreaterThan(50)
  })

  it('the spans are the same however many events arrive at once, and however often an exporter starts again', async () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(eventfulSessions, sizes, async ({ events }, batches) => {
        const spans = await spansInBatches(events, [1_000], 'nothing')
        expect(await spansInBatches(events, batches, 'nothing')).toEqual(spans)
        expect(await spansInBatches(events, batches, 'all')).toEqual(spans)
      }),
      { numRuns: size(20, 60) },
    )
  })
})
