// Which hooks are due at a point of a session, derived from its events alone, even after going back.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { addToHookPast, type HookPlace, hasRun, noPast, placesAfter, placesBefore } from '../../../src/session/hooks/past.ts'
import { sessionStarted } from '../../support/session-started.ts'

const PAY = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
const LOOK = { run: 1, turn: 1, callId: 't_1_1_1', tool: 'look' }

const OPENED: EventBody[] = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
]
const ANSWERED: EventBody[] = [
  ...OPENED,
  {
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'scripted',
    content: [PAY, LOOK].map(({ tool }) => ({ type: 'tool_use' as const, id: 'x', name: tool, input: { of: tool } })),
    stopReason: 'tool_use',
    usage: NO_USAGE,
    calls: [],
  },
]
const ENDED: EventBody[] = [
  ...ANSWERED,
  { type: 'tool_completed', ...PAY, attempt: 1, value: 'paid' },
  { type: 'tool_failed', ...LOOK, attempt: 1, code: 'tool_failed', message: 'it threw' },
]
const seqOf = (bodies: readonly EventBody[]): number => bodies.length

function pastOf(...bodies: EventBody[]) {
  const past = noPast()
  for (const [index, body] of bodies.entries()) addToHookPast(past, { v: 1, seq: index + 1, at: 0, ...body } as SessionEvent)
  return past
}

/** The hook events of these places, with their calls. */
const names = (places: HookPlace[][]): string[][] =>
  places.map((list) => list.map(({ on, outcome }) => (outcome ? `${on} ${outcome.callId}` : on)))

const ran = (on: 'agentStart' | 'postToolUse', callId?: string): EventBody => ({
  type: 'hook_answered',
  run: 1,
  turn: 1,
  on,
  hook: 'h',
  attempt: 1,
  ...defined({ callId }),
})

describe('the hooks that are due', () => {
  it('the hooks that are due before the first model call of a run are those for the start of the run and of the turn', () => {
    expect(names(placesBefore(pastOf(...OPENED), 1))).toEqual([[], [], ['agentStart'], ['turnStart']])
  })

  it('before the next model call, the hooks for each outcome, for the turn’s end and for the new turn are due', () => {
    expect(names(placesBefore(pastOf(...ENDED), 2))).toEqual([
      ['postToolUse t_1_1_0', 'postToolUseFailure t_1_1_1'],
      ['turnEnd'],
      [],
      ['turnStart'],
    ])
  })

  it('the hooks that are due receive the arguments with which a call was executed, and its result or error', () => {
    const changed: EventBody = { ...ran('postToolUse', PAY.callId), on: 'preToolUse', answer: { modify: { of: 'less' } } } as EventBody
    const [outcomes] = placesAfter(pastOf(...ANSWERED, changed, ...ENDED.slice(ANSWERED.length)))
    expect(outcomes?.map(({ outcome }) => outcome)).toEqual([
      { turn: 1, callId: PAY.callId, tool: 'pay', args: { of: 'less' }, result: 'paid' },
      { turn: 1, callId: LOOK.callId, tool: 'look', args: { of: 'look' }, error: { code: 'tool_failed', message: 'it threw' } },
    ])
  })

  it('a hook has answered once its answer is recorded; for the start of a run, an answer in any turn counts', () => {
    const past = pastOf(...ENDED, ran('agentStart'), ran('postToolUse', PAY.callId))
    const [outcomes] = placesAfter(past)
    expect(outcomes?.map((place) => hasRun(past, place, 'h'))).toEqual([true, false])
    expect(hasRun(past, { on: 'agentStart', turn: 2 }, 'h')).toBe(true)
    expect(hasRun(past, { on: 'agentStart', turn: 2 }, 'another')).toBe(false)
  })
})

describe('hooks that were due when a run ended', () => {
  const interrupted: EventBody = { type: 'run_interrupted', run: 1 }
  const nextRun: EventBody[] = [
    { type: 'message_received', messageId: 'n', content: 'and now?' },
    { type: 'run_started', run: 2, messageId: 'n' },
  ]

  it('hooks that were given up at the end of a run do not run in the next one, except for outcomes found later', () => {
    const givenUp: EventBody = { type: 'hooks_ended', run: 1, turn: 1, error: { code: 'lost', message: 'it took too long' } }
    expect(names(placesBefore(pastOf(...ENDED, interrupted, givenUp, ...nextRun), 1))).toEqual([[], [], ['agentStart'], ['turnStart']])
    const found: EventBody = { type: 'tool_resolved', ...LOOK, by: 'person', happened: true, value: 'seen' }
    const unknown: EventBody = { type: 'tool_unknown', ...LOOK, attempt: 1, message: 'unknown' }
    const past = pastOf(...ANSWERED, unknown, interrupted, givenUp, found, ...nextRun)
    expect(names(placesBefore(past, 1))[0]).toEqual(['postToolUse t_1_1_1'])
  })
})

describe('after going back', () => {
  it('a session that goes back to before its calls ended forgets their outcomes and the hooks’ answers to them', () => {
    const toSeq = seqOf(ANSWERED)
    const back: EventBody = { type: 'rolled_back', toSeq, upToSeq: seqOf(ENDED) + 1, reason: 'requested' } as EventBody
    const past = pastOf(...ENDED, ran('postToolUse', PAY.callId), back)
    expect(names(placesAfter(past))).toEqual([[], ['turnEnd']])
  })

  it.each(['restart_run', 'abandon'] as const)('a run that was removed by %s has no past for hooks', (strategy) => {
    const recovered = { type: 'recovery_started', run: 1, strategy, by: 'ann' } as unknown as EventBody
    const past = pastOf(...ENDED, ran('agentStart'), recovered)
    expect(names(placesBefore(past, 1))).toEqual([[], [], ['agentStart'], ['turnStart']])
    expect(hasRun(past, { on: 'agentStart', turn: 1 }, 'h')).toBe(false)
  })

  it('hooks run again for a call that a selective recovery makes again, and for no other', () => {
    const again = { callId: PAY.callId, generation: 2 }
    const recovered = { type: 'recovery_started', run: 1, strategy: 'selective', redo: [again], by: 'ann' } as unknown as EventBody
    const answersToBoth = [ran('postToolUse', PAY.callId), ran('postToolUse', LOOK.callId)]
    const past = pastOf(...ENDED, ...answersToBoth, recovered, { type: 'tool_completed', ...PAY, attempt: 1, value: 'paid again' })
    const [outcomes = []] = placesAfter(past)
    expect(outcomes.map(({ outcome }) => outcome?.callId)).toEqual([LOOK.callId, PAY.callId])
    const place = outcomes.find(({ outcome }) => outcome?.callId === PAY.callId)
    expect(place?.outcome?.result).toBe('paid again')
    expect(place && hasRun(past, place, 'h')).toBe(false)
    expect(hasRun(past, { on: 'postToolUse', turn: 1, outcome: { ...LOOK, args: null } }, 'h')).toBe(true)
  })

  it('after a rollback to a point before a selective recovery, hooks run for the newest outcome, which the transcript still shows', () => {
    const again = { callId: LOOK.callId, as: `${LOOK.callId}#2` }
    const past = pastOf(
      ...ENDED,
      { type: 'recovery_started', run: 1, strategy: 'selective', turn: 1, toSeq: seqOf(ANSWERED), redo: [again], by: 'ann' },
      { type: 'recovery_ended', run: 1, strategy: 'selective' },
      { type: 'tool_completed', ...LOOK, callId: again.as, attempt: 1, value: 'seen' },
      ran('postToolUse', again.as),
      { type: 'run_interrupted', run: 1 },
      { type: 'rolled_back', toSeq: seqOf(ENDED), upToSeq: seqOf(ENDED), effects: [] },
    )
    const [outcomes = []] = placesAfter(past)
    expect(outcomes.map(({ outcome }) => [outcome?.callId, outcome?.result])).toEqual([
      [PAY.callId, 'paid'],
      [again.as, 'seen'],
    ])
    // What the hook said has left the transcript.
    expect(outcomes.some((place) => hasRun(past, place, 'h'))).toBe(false)
  })
})
