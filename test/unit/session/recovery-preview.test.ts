// What each strategy would keep and redo, checked against the fold, the transcript and the next decision after the recovery.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { decide, dueAt } from '../../../src/session/decide.ts'
import { defined } from '../../../src/session/defined.ts'
import type { Effect, Resolution } from '../../../src/session/call-facts.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { RecoveryStrategy } from '../../../src/session/agent-facts.ts'
import { requestIdOf } from '../../../src/session/ids.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { type NextStep, previewRecoveries } from '../../../src/session/recovery/preview.ts'
import { hasEnded } from '../../../src/session/past/call-status.ts'
import { addToVisible, nothingVisible } from '../../../src/session/past/visible.ts'
import { problemWithChoice } from '../../../src/session/recovery/selective.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { ofType } from '../../support/events.ts'
import { sessionStarted } from '../../support/session-started.ts'
import { metInSessions } from './sound-session.ts'

const OPENED: EventBody[] = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
]
const TOOLS: Record<string, Effect> = { look: 'read', put: 'idempotent', pay: 'external' }

const resolution = (tool: string, turn: number, index: number): Resolution => {
  const effect = TOOLS[tool] ?? 'read'
  return {
    index,
    tool,
    effect,
    ...(effect !== 'read' && { key: `key-${turn}-${index}` }),
    inputDigest: `${turn}-${index}`,
    schemaDigest: 's',
    timeoutMs: 1_000,
    retry: { maxRetries: 0, baseDelayMs: 10 },
    verify: false,
  }
}

/** A turn whose model requests these tools; those marked with `!` get no result, with `✗` an error result, with `?` an unknown one. */
function turnOf(turn: number, ...requested: string[]): EventBody[] {
  const tools = requested.map((tool) => tool.replace(/\W/, ''))
  const place = (index: number) => ({ run: 1, turn, callId: `t_1_${turn}_${index}`, tool: tools[index] ?? '' })
  return [
    { type: 'turn_started', run: 1, turn, takes: turn === 1 ? ['m'] : [] },
    {
      type: 'model_completed',
      run: 1,
      turn,
      attempt: 1,
      model: 'scripted',
      content: tools.map((name) => ({ type: 'tool_use', id: 'x', name, input: {} })),
      stopReason: 'tool_use',
      usage: NO_USAGE,
      calls: tools.map((tool, index) => resolution(tool, turn, index)),
    },
    ...requested.flatMap((mark, index): EventBody[] => {
      const { effect, inputDigest, key } = resolution(tools[index] ?? '', turn, index)
      const issued: EventBody = { type: 'tool_issued', ...place(index), index, effect, inputDigest, input: {}, ...(key && { key }) }
      if (mark.endsWith('!')) return index === 0 ? [issued] : []
      if (mark.endsWith('✗')) return [issued, { type: 'tool_failed', ...place(index), attempt: 1, code: 'c', message: 'no' }]
      if (mark.endsWith('?')) return [issued, { type: 'tool_unknown', ...place(index), attempt: 1, message: 'who knows' }]
      return [issued, { type: 'tool_completed', ...place(index), attempt: 1, value: 1 }]
    }),
  ]
}

const failed = (turn: number): EventBody => ({ type: 'error_entered', run: 1, turn, code: 'c', reason: 'r', strategy: 'manual' })
const modelFails = (turn: number): EventBody[] => [{ type: 'turn_started', run: 1, turn, takes: turn === 1 ? ['m'] : [] }, failed(turn)]

const eventsOf = (bodies: readonly EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 1, ...body }) as SessionEvent)
const stateOf = (events: readonly SessionEvent[]): SessionState => fold(undefined, events) ?? expect.fail()

/** The calls with a result, as the store's rows have them. */
function endedIn(events: readonly SessionEvent[]): Parameters<typeof previewRecoveries>[2] {
  return events.flatMap((event) => {
    if (event.type !== 'tool_completed' && event.type !== 'tool_failed' && event.type !== 'tool_unknown') return []
    return [{ callId: event.callId, turn: event.turn, isEffect: event.type === 'tool_completed' && TOOLS[event.tool] !== 'read' }]
  })
}

/** Ids of the calls whose results the model still sees. */
function shownIn(events: readonly SessionEvent[]): string[] {
  const transcript = emptyTranscript()
  for (const event of events) addToTranscript(transcript, event)
  const closed = transcript.messages.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [block.tool_use_id] : [])),
  )
  return [...closed, ...(transcript.open ? transcript.open.results.keys() : [])]
}

/** What the session does first after the recovery. */
function firstStep(state: SessionState): NextStep | undefined {
  const decision = decide(state, dueAt(0))
  switch (decision.do) {
    case 'start_run':
      return { step: 'new_run', run: decision.run }
    case 'start_turn':
    case 'call_model':
      return { step: 'model_call', run: decision.run, turn: decision.turn }
    case 'run_calls':
      return { step: 'calls', run: decision.run, turn: decision.turn }
    case 'complete_run':
      return { step: 'completion', run: decision.run }
    default:
      return undefined
  }
}

const [A, B, C] = ['t_1_1_0', 't_1_1_1', 't_1_2_0']

/** A read of turn 1 is made again after turn 2 has failed, and the run fails again meanwhile. */
const REOPENED: EventBody[] = [
  ...turnOf(1, 'put', 'look✗'),
  ...modelFails(2),
  { type: 'recovery_started', run: 1, strategy: 'selective', turn: 1, toSeq: 5, redo: [{ callId: 't_1_1_1', as: 't_1_1_1#2' }] },
  { type: 'recovery_ended', run: 1, strategy: 'selective' },
  failed(1),
]

const CASES: [string, EventBody[], RecoveryStrategy, object][] = [
  ['a model call that failed', modelFails(1), 'continue_run', { keeps: [], next: { step: 'model_call', run: 1, turn: 1 } }],
  ['a model call that failed', modelFails(1), 'restart_run', { keeps: [], next: { step: 'new_run', run: 2 } }],
  ['a model call that failed', modelFails(1), 'abandon', { keeps: [], leaves: [] }],
  [
    'a model call that failed while a message waited',
    [...modelFails(1), { type: 'message_received', messageId: 'm2', content: 'and?' }],
    'abandon',
    { next: { step: 'new_run', run: 2 } },
  ],
  ['an effect, then a read', [...turnOf(1, 'put', 'look'), ...turnOf(2, 'look'), ...modelFails(3)], 'continue_run', { keeps: [A, B, C] }],
  [
    'an effect, then a read',
    [...turnOf(1, 'put', 'look'), ...turnOf(2, 'look'), ...modelFails(3)],
    'restart_from_last_effect',
    { keeps: [A, B], leaves: [C], next: { step: 'model_call', run: 1, turn: 4 } },
  ],
  [
    'an effect, then a read',
    [...turnOf(1, 'put', 'look'), ...turnOf(2, 'look'), ...modelFails(3)],
    'restart_run',
    { keeps: [], replays: [A], leaves: [B, C] },
  ],
  [
    'an effect, then a read',
    [...turnOf(1, 'put', 'look'), ...turnOf(2, 'look'), ...modelFails(3)],
    'abandon',
    { keeps: [], replays: [A], leaves: [B, C] },
  ],
  ['a call without a result', [...turnOf(1, 'put', 'pay!'), failed(1)], 'continue_run', { keeps: [A], executes: [B], drops: [] }],
  [
    'a call without a result',
    [...turnOf(1, 'put', 'pay!'), failed(1)],
    'restart_from_last_effect',
    { keeps: [A], executes: [], drops: [B], next: { step: 'model_call', run: 1, turn: 2 } },
  ],
  ['a call without a result', [...turnOf(1, 'put', 'pay!'), failed(1)], 'abandon', { keeps: [], replays: [A], drops: [B] }],
  ['an error result', [...turnOf(1, 'put✗'), ...modelFails(2)], 'restart_run', { keeps: [], replays: [], leaves: [A] }],
  [
    'a turn that was reopened, and not finished',
    REOPENED,
    'restart_from_last_effect',
    { keeps: [A], drops: ['t_1_1_1#2'], next: { step: 'model_call', run: 1, turn: 3 } },
  ],
  [
    'a turn that was reopened, and not finished',
    REOPENED,
    'continue_run',
    { executes: ['t_1_1_1#2'], next: { step: 'calls', run: 1, turn: 1 } },
  ],
  ['all calls ended', [...turnOf(1, 'put'), failed(1)], 'continue_run', { keeps: [A], next: { step: 'model_call', run: 1, turn: 2 } }],
]

describe('a preview', () => {
  it.each(CASES.map(([failure, ...rest]) => ({ failure, strategy: rest[1], rest })))(
    'a preview says what $strategy keeps and what comes next, after $failure',
    ({ rest: [bodies, strategy, expected] }) => {
      const events = eventsOf([...OPENED, ...bodies])
      const before = stateOf(events)
      const run = before.current ?? expect.fail()
      const found = previewRecoveries(before, run, endedIn(events)).find((one) => one.strategy === strategy) ?? expect.fail()
      expect(found).toMatchObject({ strategy, ...expected })
      expect(found.refused).toBeUndefined()
      const toSeq = strategy === 'restart_from_last_effect' ? (run.lastEffect?.seq ?? before.seq) : undefined
      const started: EventBody = { type: 'recovery_started', run: 1, strategy, ...defined({ toSeq }) }
      const after = eventsOf([...OPENED, ...bodies, started, { type: 'recovery_ended', run: 1, strategy }])
      // A dropped call whose turn stays has a result saying that it was never run.
      const closed = found.drops.map(requestIdOf).filter((callId) => shownIn(after).includes(callId))
      expect(shownIn(after).sort()).toEqual([...found.keeps, ...closed].sort())
      expect(firstStep(stateOf(after))).toEqual(found.next)
    },
  )

  it('a preview lists the suggested strategy first, and says why others are not possible now', () => {
    const events = eventsOf([...OPENED, ...turnOf(1, 'pay?'), ...modelFails(2)])
    const state = stateOf(events)
    const previews = previewRecoveries(state, state.current ?? expect.fail(), endedIn(events))
    expect(previews.map(({ strategy, suggested, refused }) => [strategy, suggested, refused?.code])).toEqual([
      ['manual', true, undefined],
      ['continue_run', false, 'outcome_unknown'],
      ['selective', false, undefined],
      ['restart_from_last_effect', false, 'outcome_unknown'],
      ['restart_run', false, 'outcome_unknown'],
      ['abandon', false, undefined],
    ])
  })

  it('a preview of a choice among calls says what may be chosen for each, and a recovery with that choice is accepted', () => {
    const events = eventsOf([...OPENED, ...turnOf(1, 'put', 'look', 'put✗', 'pay?'), ...modelFails(2)])
    const state = stateOf(events)
    const run = state.current ?? expect.fail()
    const { choices = [], refused } =
      previewRecoveries(state, run, endedIn(events)).find(({ strategy }) => strategy === 'selective') ?? expect.fail()
    expect(refused).toBeUndefined()
    expect(choices).toEqual([
      { callId: 't_1_1_0', keep: true, skip: false, redo: 'forced' },
      { callId: 't_1_1_1', keep: true, skip: false, redo: true },
      { callId: 't_1_1_2', keep: true, skip: true, redo: true },
      { callId: 't_1_1_3', keep: true, skip: true, redo: true },
    ])
    const named = { keep: ['t_1_1_3'], skip: [], redo: [], force: false }
    const problem = (list: 'keep' | 'skip' | 'redo', callId: string, force = false): string | undefined => {
      const others = callId === 't_1_1_3' ? { ...named, keep: [] } : named
      return problemWithChoice(state, run, { ...others, [list]: [...others[list], callId], force }, 'ann')?.code
    }
    for (const { callId, keep, skip, redo } of choices) {
      expect(problem('keep', callId) === undefined).toBe(keep)
      expect(problem('skip', callId) === undefined).toBe(skip)
      expect(problem('redo', callId) === undefined).toBe(redo === true)
      expect(problem('redo', callId, true)).toBeUndefined()
    }
  })

  it('a preview of an error that pawl leaves by itself only allows a person to abandon the run', () => {
    const events = eventsOf([
      ...OPENED,
      { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
      { ...failed(1), strategy: 'automatic' } as EventBody,
    ])
    const state = stateOf(events)
    const previews = previewRecoveries(state, state.current ?? expect.fail(), [])
    const possible = previews.filter(({ refused }) => !refused).map(({ strategy }) => strategy)
    expect(possible.sort()).toEqual(['abandon', 'manual'])
    expect(previews.find(({ strategy }) => strategy === 'restart_run')?.refused?.code).toBe('recovers_by_itself')
  })
})

describe('the suggested strategy', () => {
  const suggestedAfter = (strategy: 'continue_run' | 'manual'): RecoveryStrategy | undefined => {
    const error: EventBody = { type: 'error_entered', run: 1, turn: 2, code: 'overloaded_error', reason: 'r', strategy }
    const state = stateOf(eventsOf([...OPENED, ...turnOf(1, 'look'), { type: 'turn_started', run: 1, turn: 2, takes: [] }, error]))
    return previewRecoveries(state, state.current ?? expect.fail(), []).find(({ suggested }) => suggested)?.strategy
  }

  it('the suggested strategy is the one recorded with the error: the code does not say whether it was transient', () => {
    expect(suggestedAfter('continue_run')).toBe('continue_run')
    expect(suggestedAfter('manual')).toBe('restart_run')
  })
})

describe('previews of random sessions', () => {
  /** The calls of the run that have a result in its transcript, as the rows have them. */
  function endedNow(events: readonly SessionEvent[], run: number): Parameters<typeof previewRecoveries>[2] {
    const past = nothingVisible()
    for (const event of events) addToVisible(past, event)
    const counting = past.entries.flatMap(({ event, out }) => (out ? [] : [event]))
    const open = new Set((fold(undefined, events)?.current?.calls ?? []).filter((call) => !hasEnded(call)).map(({ callId }) => callId))
    const effects = new Map(counting.flatMap((event) => (event.type === 'tool_issued' ? [[event.callId, event.effect]] : [])))
    const ended = new Map<string, { callId: string; turn: number; isEffect: boolean }>()
    for (const event of counting) {
      if (event.type !== 'tool_completed' && event.type !== 'tool_failed' && event.type !== 'tool_unknown') continue
      const { callId, turn } = event
      const isEffect = event.type === 'tool_completed' && event.replayOf === undefined && effects.get(callId) !== 'read'
      if (event.run === run && !open.has(callId)) ended.set(callId, { callId, turn, isEffect })
    }
    return [...ended.values()]
  }

  const ofRun = (callIds: readonly string[], run: number): string[] => callIds.filter((id) => id.startsWith(`t_${run}_`))

  it('a preview says of each recovery that a random session carried out which results the model saw afterwards, and what came next', () => {
    const met = metInSessions(({ events }) => {
      let compared = 0
      for (const { seq, strategy, run = 0 } of ofType(events, 'recovery_started')) {
        const before = events.slice(0, seq - 1)
        const after = events.slice(0, seq + 1)
        const state = stateOf(before)
        const current = state.current
        if (strategy === 'automatic' || strategy === 'selective' || !current || after.at(-1)?.type !== 'recovery_ended') continue
        const preview = previewRecoveries(state, current, endedNow(before, run)).find((one) => one.strategy === strategy) ?? expect.fail()
        expect(preview.refused).toBeUndefined()
        const shown = new Set(ofRun(shownIn(after), run))
        for (const callId of preview.keeps.map(requestIdOf)) expect(shown).toContain(callId)
        for (const callId of [...preview.replays, ...preview.leaves].map(requestIdOf)) expect(shown).not.toContain(callId)
        // Besides those that stay, only calls that are never run have a result: one that says so.
        const rest = [...shown].filter((callId) => !preview.keeps.map(requestIdOf).includes(callId))
        expect(preview.drops.map(requestIdOf)).toEqual(expect.arrayContaining(rest))
        if (!stateOf(after).paused) expect(firstStep(stateOf(after))?.step).toBe(preview.next?.step)
        compared += 1
      }
      return compared
    })
    expect(met).toBeGreaterThan(20)
  })
})
