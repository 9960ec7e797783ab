// Slices: the fold, what going back does to it, and reducers that cannot be trusted.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { defineSlice } from '../../../src/agent/define-slice.ts'
import type { EventBody, EventOf, SessionEvent } from '../../../src/session/events.ts'
import { addToSlices, emptySlices, type SkippedEvent, type SliceRules } from '../../../src/session/slices/slices.ts'
import { eventfulSessions } from './sound-session.ts'
import { sessionStarted } from '../../support/session-started.ts'

const numbered = (...bodies: EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: index, ...body }) as SessionEvent)

function foldOf(rules: readonly SliceRules[], events: readonly SessionEvent[], skipped: SkippedEvent[] = []) {
  const fold = emptySlices(rules)
  for (const event of events) addToSlices(fold, event, (what) => skipped.push(what))
  return fold
}

/** What was received, answered, reported and completed, in order; replays do not count. */
const journal = defineSlice({
  name: 'journal',
  version: 1,
  schema: z.array(z.string()),
  initial: [],
  on: {
    message_received: (all, { messageId }) => [...all, `said ${messageId}`],
    model_completed: (all, { run, turn }) => [...all, `answer ${run}.${turn}`],
    emitted: (all, { name }) => [...all, `emitted ${name}`],
    tool_completed: (all, { value, replayOf }) => (replayOf === undefined ? [...all, `did ${JSON.stringify(value)}`] : all),
  },
})
/** What the agent's tools have done. pawl's own tools and sleeps are left out, because they may return the same result twice. */
const effects = defineSlice({
  name: 'effects',
  version: 1,
  schema: z.array(z.string()),
  initial: [],
  on: {
    tool_completed(all, { tool, value, replayOf }) {
      const did = `${tool} ${JSON.stringify(value)}`
      return replayOf !== undefined || /^(?:submit_output|memory_|plan_)|"wokenBy"/.test(did) ? all : [...all, did]
    },
  },
})
const journalOf = (...bodies: EventBody[]): string[] => foldOf([journal], numbered(...bodies)).values.journal as string[]

const usage = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const started: EventBody = sessionStarted({ coreVersion: 2 })
const said = (messageId: string): EventBody => ({ type: 'message_received', messageId, content: messageId })
const runs = (run: number, messageId = `q${run}`): EventBody => ({ type: 'run_started', run, messageId })
const turn = (run: number, nth: number, ...takes: string[]): EventBody => ({ type: 'turn_started', run, turn: nth, takes })
const answer = (run: number, nth: number): EventBody => ({
  ...({ type: 'model_completed', attempt: 1, model: 'm', content: [], stopReason: 'end_turn', usage, calls: [] } as const),
  run,
  turn: nth,
})
const call = (run: number, nth: number, callId = `t_${run}_${nth}_0`) => ({ run, turn: nth, callId, tool: 'pay', attempt: 1 })
const emitted = (run: number, nth: number, name: string): EventBody => ({ type: 'emitted', ...call(run, nth), name })
const did = (run: number, nth: number, value: string): EventBody => ({ type: 'tool_completed', ...call(run, nth), value })
const replayed = (run: number, nth: number, replayOf: string): EventBody => ({
  type: 'tool_completed',
  ...call(run, nth),
  attempt: 0,
  replayOf,
})
const back = (toSeq: number, upToSeq: number, more: Partial<EventOf<'rolled_back'>> = {}): EventBody => ({
  type: 'rolled_back',
  toSeq,
  upToSeq,
  effects: [],
  ...more,
})
const recovery = (how: Omit<EventOf<'recovery_started'>, 'type' | 'v' | 'seq' | 'at'>): EventBody => ({ type: 'recovery_started', ...how })

/** A run of two turns, the first with a call that reported something. */
const worked = [started, said('q1'), runs(1), turn(1, 1, 'q1'), answer(1, 1), emitted(1, 1, 'half'), did(1, 1, 'paid'), answer(1, 2)]

describe('a slice', () => {
  it('a slice is folded from the events that it has reducers for', () => {
    expect(journalOf(...worked)).toEqual(['said q1', 'answer 1.1', 'emitted half', 'did "paid"', 'answer 1.2'])
  })

  it('a slice returns to its earlier value after going back, except for messages that still have to be answered', () => {
    expect(journalOf(...worked, said('q2'), back(4, 8))).toEqual(['said q1', 'said q2'])
    expect(journalOf(...worked, said('q2'), back(4, 9))).toEqual(['said q1'])
    const again = { messages: [{ messageId: 'q1', seq: 2 }], intent: 1 }
    expect(journalOf(...worked, back(1, 0, { again }))).toEqual(['said q1'])
  })

  it('a slice includes the result that a replay restores, with the call’s reports, only once', () => {
    const abandonedTurn = [...worked.slice(0, 7), back(4, 4, { keepsRun: true })]
    const replay = [turn(1, 2), answer(1, 2), replayed(1, 2, 't_1_1_0')]
    expect(journalOf(...abandonedTurn)).toEqual(['said q1'])
    expect(journalOf(...abandonedTurn, ...replay)).toEqual(['said q1', 'answer 1.2', 'emitted half', 'did "paid"'])
    const twice = [...replay, turn(1, 3), answer(1, 3), replayed(1, 3, 't_1_1_0')]
    expect(journalOf(...abandonedTurn, ...twice)).toEqual(['said q1', 'answer 1.2', 'emitted half', 'did "paid"', 'answer 1.3'])
    expect(journalOf(...worked, turn(1, 3), answer(1, 3), replayed(1, 3, 't_1_1_0')).slice(4)).toEqual(['answer 1.2', 'answer 1.3'])
  })

  it('a slice includes hooks’ reports only once, though hooks also run for a replay', () => {
    const ofHook = (nth: number): EventBody => ({ ...emitted(1, nth, `seen in ${nth}`), on: 'postToolUse', hook: 'post' }) as EventBody
    const abandonedTurn = [...worked.slice(0, 7), ofHook(1), back(4, 4, { keepsRun: true })]
    const replay = [turn(1, 2), answer(1, 2), replayed(1, 2, 't_1_1_0'), ofHook(2)]
    expect(journalOf(...abandonedTurn, ...replay)).toEqual(['said q1', 'answer 1.2', 'emitted half', 'did "paid"', 'emitted seen in 2'])
  })

  it('a slice keeps hooks’ reports about the request of a repeated or skipped call, but not about its outcome', () => {
    const ofHook = (on: 'preToolUse' | 'postToolUseFailure'): EventBody => ({ ...emitted(1, 1, on), on, hook: 'h' }) as EventBody
    const failed: EventBody = { type: 'tool_failed', ...call(1, 1), code: 'tool_failed', message: 'it threw' }
    const past = [...worked.slice(0, 5), ofHook('preToolUse'), failed, ofHook('postToolUseFailure')]
    expect(journalOf(...past)).toEqual(['said q1', 'answer 1.1', 'emitted preToolUse', 'emitted postToolUseFailure'])
    const choice = { run: 1, strategy: 'selective', toSeq: 5, turn: 1 } as const
    for (const how of [{ redo: [{ callId: 't_1_1_0', as: 't_1_1_0#2' }] }, { skip: ['t_1_1_0'] }]) {
      expect(journalOf(...past, recovery({ ...choice, ...how }))).toEqual(['said q1', 'answer 1.1', 'emitted preToolUse'])
    }
  })

  it('a slice includes the result that a replay restores of a call whose outcome was unknown', () => {
    const resolved: EventBody = { type: 'tool_resolved', ...call(1, 1), by: 'verify', happened: true, value: 'paid' }
    expect(journalOf(...worked.slice(0, 5), resolved, turn(1, 2), replayed(1, 2, 't_1_1_0'))).toEqual([
      'said q1',
      'answer 1.1',
      'did "paid"',
    ])
  })

  it.each<[string, EventBody, string[]]>([
    [
      'continues',
      recovery({ run: 1, strategy: 'continue_run' }),
      ['said q1', 'answer 1.1', 'emitted half', 'did "paid"', 'answer 1.2', 'said q2'],
    ],
    ['restarts', recovery({ run: 1, strategy: 'restart_run' }), ['said q1', 'said q2']],
    ['is abandoned', recovery({ run: 1, strategy: 'abandon' }), ['said q1', 'said q2']],
    [
      'restarts from its last effect',
      recovery({ run: 1, strategy: 'restart_from_last_effect', toSeq: 7 }),
      ['said q1', 'answer 1.1', 'emitted half', 'did "paid"', 'said q2'],
    ],
    [
      'makes a call again',
      recovery({ run: 1, strategy: 'selective', toSeq: 5, turn: 1, redo: [{ callId: 't_1_1_0', as: 't_1_1_0#2' }] }),
      ['said q1', 'answer 1.1', 'answer 1.2', 'said q2'],
    ],
  ])('a slice follows the transcript when a run %s', (_, event, value) => {
    expect(journalOf(...worked, said('q2'), event)).toEqual(value)
  })

  it('a slice starts over if the past of the session is lost', () => {
    const origin = { seq: 8, digest: 'd' }
    expect(journalOf(...worked, { ...started, after: { run: 1, checkpoint: 0, origin } }, said('q2'))).toEqual(['said q2'])
  })

  it('a slice has, after going back, the value that it has in a session that never went further', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.nat(), ({ events }, nth) => {
        const toSeq = 1 + (nth % events.length)
        const then = foldOf([journal], events.slice(0, toSeq))
        const last = events.length
        const gone = foldOf([journal], [...events, { v: 1, seq: last + 1, at: 0, type: 'rolled_back', toSeq, upToSeq: last, effects: [] }])
        const startedAfter = events.findLastIndex(({ type }) => type === 'session_started') >= toSeq
        // Of each call that stays, the newest outcome stays: past.test.ts says which one.
        const chosen = events.flatMap((event) => (event.type === 'recovery_started' && event.strategy === 'selective' ? [event] : []))
        const again = new Set(chosen.flatMap(({ redo = [] }) => redo.map(({ as }) => as)))
        const isReplaced = events.some(
          (event) =>
            event.seq > toSeq && (chosen.some(({ seq }) => seq === event.seq) || ('callId' in event && again.has(event.callId ?? ''))),
        )
        if (!startedAfter && !isReplaced) expect(gone.values).toEqual(then.values)
      }),
    )
  })

  it('a slice counts each completed effect at most once, however a session was recovered', () => {
    fc.assert(
      fc.property(eventfulSessions, ({ events }) => {
        const calls = foldOf([effects], events).values.effects as string[]
        const forced = events.some((event) => event.type === 'recovery_started' && event.force)
        if (!forced) expect(new Set(calls).size).toBe(calls.length)
      }),
    )
  })
})

describe('a reducer', () => {
  const counter = (count: (value: { n: number }, event: EventOf<'message_received'>) => unknown): SliceRules =>
    defineSlice({
      name: 'counter',
      version: 1,
      schema: z.object({ n: z.number() }),
      initial: { n: 0 },
      on: { message_received: count as (value: { n: number }) => { n: number } },
    })
  const received = numbered(started, said('a'), said('bad'), said('c'))

  it.each<[string, (value: { n: number }) => unknown, RegExp]>([
    [
      'throws',
      () => {
        throw new Error('no such thing')
      },
      /no such thing/,
    ],
    [
      'changes the value in place',
      (value) => {
        value.n += 1
        return value
      },
      /read only/,
    ],
    ['returns nothing', () => undefined, /returned undefined/],
    ['is async', async () => Promise.reject(new Error('later')), /cannot be async/],
  ])('the event of a reducer that %s is skipped and reported', (_, fail, error) => {
    const skipped: SkippedEvent[] = []
    const rules = counter((value, { messageId }) => (messageId === 'bad' ? fail(value) : { n: value.n + 1 }))
    expect(foldOf([rules], received, skipped).values).toEqual({ counter: { n: 2 } })
    expect(skipped).toEqual([{ slice: 'counter', seq: 3, type: 'message_received', error: expect.any(Error) }])
    expect(String(skipped[0]?.error)).toMatch(error)
  })

  it('a reducer that throws is reported once, even if the slice is folded again', () => {
    const skipped: SkippedEvent[] = []
    const rules = counter(() => {
      throw new Error('always')
    })
    const moved: SessionEvent[] = [...received, { v: 1, seq: 5, at: 0, type: 'rolled_back', toSeq: 3, upToSeq: 4, effects: [] }]
    foldOf([rules], moved, skipped)
    expect(skipped.map(({ seq }) => seq)).toEqual([2, 3, 4])
  })

  it('a reducer cannot change an event for other reducers', () => {
    const first = counter((_, event) => {
      Object.assign(event, { messageId: 'changed' })
    })
    const second = { ...counter((_, { messageId }) => ({ n: messageId.length })), name: 'second' }
    expect(foldOf([first, second], received).values).toEqual({ counter: { n: 0 }, second: { n: 1 } })
    expect(received[1]).toMatchObject({ messageId: 'a' })
  })
})
