// Which choices among a failed turn's calls are possible, and what they do to the transcript and the state.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { defined } from '../../../src/session/defined.ts'
import type { Effect, Resolution } from '../../../src/session/call-facts.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { previewChoice } from '../../../src/session/recovery/choice-preview.ts'
import { eventsOfChoice, inPlaceOf } from '../../../src/session/recovery/redo.ts'
import { type CallChoice, choiceIn, problemWithChoice } from '../../../src/session/recovery/selective.ts'
import type { CallState, SessionState } from '../../../src/session/state.ts'
import { messagesFor } from '../../../src/session/transcript/model-messages.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript, type Transcript } from '../../../src/session/transcript/transcript.ts'
import { requestedCallsOf } from '../../../src/session/fold/turn-calls.ts'
import { sessionStarted } from '../../support/session-started.ts'

const resolution = (index: number, tool: string, effect: Effect): Resolution => ({
  index,
  tool,
  effect,
  ...(effect !== 'read' && { key: `k${index}` }),
  inputDigest: `d${index}`,
  schemaDigest: 's',
  timeoutMs: 1_000,
  retry: { maxRetries: 0, baseDelayMs: 10 },
  verify: false,
})
const CALLS = [
  resolution(0, 'pay', 'external'),
  resolution(1, 'look', 'read'),
  resolution(2, 'put', 'idempotent'),
  resolution(3, 'wire', 'external'),
]
const idOf = (index: number): string => `t_1_1_${index}`
const whereOf = (index: number) => ({ run: 1, turn: 1, callId: idOf(index), tool: CALLS[index]?.tool ?? '' })
const issued = (index: number): EventBody => {
  const { tool: _, replayOf: __, ...about } = CALLS[index] ?? expect.fail()
  const { effect, key, inputDigest } = about
  return { type: 'tool_issued', ...whereOf(index), index, effect, ...defined({ key }), inputDigest, input: { n: index } }
}

const ASKED: EventBody[] = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
  {
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'scripted',
    content: CALLS.map(({ tool, index }) => ({ type: 'tool_use' as const, id: 'x', name: tool, input: { n: index } })),
    stopReason: 'tool_use',
    usage: NO_USAGE,
    calls: CALLS,
  },
]
/** One completed effect, one completed read, one that failed, and one whose outcome is unknown. */
const ENDED: EventBody[] = [
  ...ASKED,
  ...CALLS.map(({ index }) => issued(index)),
  { type: 'tool_completed', ...whereOf(0), attempt: 1, value: 'paid' },
  { type: 'tool_completed', ...whereOf(1), attempt: 1, value: 'seen' },
  { type: 'tool_failed', ...whereOf(2), attempt: 1, code: 'tool_failed', message: 'it threw' },
  { type: 'tool_unknown', ...whereOf(3), attempt: 1, message: 'who knows' },
]
const FAILED: EventBody = { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'manual' }
const DURING_CALLS: EventBody[] = [...ASKED, issued(0), { type: 'tool_completed', ...whereOf(0), attempt: 1, value: 'paid' }, FAILED]
/** The next turn has taken another message, and its model call failed. */
const AFTERWARDS: EventBody[] = [
  ...ENDED,
  { type: 'message_received', messageId: 'n', content: 'and hurry' },
  { type: 'turn_started', run: 1, turn: 2, takes: ['n'] },
  FAILED,
]

const numbered = (bodies: readonly EventBody[]): SessionEvent[] =>
  bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 1, ...body }) as SessionEvent)
const stateOf = (bodies: readonly EventBody[]): SessionState => fold(undefined, numbered(bodies)) ?? expect.fail()
const choice = (named: Partial<CallChoice>): CallChoice => ({ keep: [], skip: [], redo: [], force: false, ...named })

function transcriptOf(bodies: readonly EventBody[]): Transcript {
  const transcript = emptyTranscript()
  for (const event of numbered(bodies)) addToTranscript(transcript, event)
  return transcript
}

/** The events, followed by those of the choice. */
function chosen(bodies: readonly EventBody[], named: Partial<CallChoice>): EventBody[] {
  const { current } = stateOf(bodies)
  if (!current) return expect.fail()
  const calls = requestedCallsOf(numbered(bodies).slice((current.answerSeq ?? 0) - 1))
  return [...bodies, ...eventsOfChoice(current, calls, choice(named), { by: 'ann', reason: 'because' })]
}

describe('a choice among calls', () => {
  it.each<[string, Partial<CallChoice>, string | undefined, string | undefined]>([
    ['of nothing', {}, 'ann', 'choose_calls'],
    ['of a call of another turn', { keep: ['t_1_2_0'], skip: [idOf(3)] }, 'ann', 'call_not_found'],
    ['without a call whose outcome is unknown', { redo: [idOf(2)] }, 'ann', 'outcome_unknown'],
    ['that skips a completed call', { skip: [idOf(1), idOf(3)] }, 'ann', 'already_completed'],
    ['that repeats a completed effect', { redo: [idOf(0)], skip: [idOf(3)] }, 'ann', 'would_repeat_effect'],
    ['that repeats it with force but without a name', { redo: [idOf(0)], skip: [idOf(3)], force: true }, undefined, 'would_repeat_effect'],
    ['that repeats it with force and a blank name', { redo: [idOf(0)], skip: [idOf(3)], force: true }, ' ', 'would_repeat_effect'],
    ['that repeats it with force and a name', { redo: [idOf(0)], skip: [idOf(3)], force: true }, 'ann', undefined],
    ['that repeats a read', { redo: [idOf(1)], keep: [idOf(3)] }, undefined, undefined],
    ['of one of each', { keep: [idOf(0), idOf(1)], skip: [idOf(2)], redo: [idOf(3)] }, undefined, undefined],
  ])('%s: %o by %s', (_, named, by, code) => {
    const state = stateOf(AFTERWARDS)
    expect(problemWithChoice(state, state.current ?? expect.fail(), choice(named), by)?.code).toBe(code)
  })

  it('a choice among calls cannot keep a call without a result', () => {
    const state = stateOf(DURING_CALLS)
    const run = state.current ?? expect.fail()
    expect(problemWithChoice(state, run, choice({ keep: [idOf(1)] }), 'ann')?.code).toBe('no_result')
    expect(problemWithChoice(state, run, choice({ skip: [idOf(1)] }), 'ann')).toBeUndefined()
  })

  it('a choice among calls consists of lists of ids, with each id only once', () => {
    expect(choiceIn({ keep: ['a'], redo: ['b'], force: true })).toEqual({ keep: ['a'], skip: [], redo: ['b'], force: true })
    for (const malformed of [{ keep: 'a' }, { skip: [1] }, { keep: ['a'], redo: ['a'] }, { force: 1 }]) {
      expect(choiceIn(malformed)).toBeUndefined()
      expect(problemWithChoice(stateOf(AFTERWARDS), stateOf(AFTERWARDS).current ?? expect.fail(), choiceIn(malformed), 'ann')?.code).toBe(
        'invalid_calls',
      )
    }
  })
})

describe('a reopened turn', () => {
  it('a reopened turn has its results before what a later turn took, with a note on the calls that were made again', () => {
    const events = chosen(AFTERWARDS, { keep: [idOf(1)], skip: [idOf(2)], redo: [idOf(0), idOf(3)], force: true })
    expect(transcriptOf(events).messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'user'])
    const again = (index: number): EventBody => ({
      type: 'tool_completed',
      ...whereOf(index),
      callId: `${idOf(index)}#2`,
      attempt: 1,
      value: `again ${index}`,
    })
    const transcript = transcriptOf([...events, again(0), again(3)])
    const [, , results, note, said] = messagesFor(transcript)
    expect(results?.content).toMatchObject([
      { tool_use_id: idOf(0), content: 'again 0' },
      { tool_use_id: idOf(1), content: 'seen' },
      { tool_use_id: idOf(2), content: expect.stringContaining('because'), is_error: true },
      { tool_use_id: idOf(3), content: 'again 3' },
    ])
    expect(note?.content).toMatch(/completed.*\n- pay \(t_1_1_0\): paid\n.*unknown.*\n- wire \(t_1_1_3\)/s)
    expect(said?.content).toBe('and hurry')
    expect(transcript.keys.get('k0')).toBe('t_1_1_0#2')
    expect(transcript.keys.get('k3')).toBe('t_1_1_3#2')
    expect(stateOf([...events, again(0), again(3)])).toMatchObject({ unknown: {}, current: { turn: 1, lastTurn: 2, phase: 'turn_due' } })
  })

  it('a reopened turn ends at once if all results stay', () => {
    const events = chosen(AFTERWARDS, { keep: [idOf(3)] })
    expect(transcriptOf(events).messages).toEqual(transcriptOf(AFTERWARDS).messages)
    expect(stateOf(events).current).toMatchObject({ phase: 'turn_due', turn: 1, lastTurn: 2 })
  })

  it('a reopened turn continues the calls that have no result, and no others', () => {
    const state = stateOf(chosen(DURING_CALLS, { redo: [idOf(1)], skip: [idOf(3)] }))
    expect(state.status).toBe('running')
    expect(state.current?.calls.map(({ callId, status }) => [callId, status])).toEqual([
      [idOf(0), 'completed'],
      [idOf(1), 'requested'],
      [idOf(2), 'requested'],
      [idOf(3), 'failed'],
    ])
  })

  it('a reopened turn can be reopened again: the third generation’s key is derived from the first key', () => {
    const again: EventBody = { type: 'tool_completed', ...whereOf(0), callId: 't_1_1_0#2', attempt: 1, value: 'paid again' }
    const once = [...chosen(AFTERWARDS, { redo: [idOf(0)], keep: [idOf(3)], force: true }), again, FAILED]
    const twice = chosen(once, { redo: ['t_1_1_0#2'], keep: [idOf(3)], force: true })
    expect(twice.at(-1)).toMatchObject({
      type: 'tool_issued',
      callId: 't_1_1_0#3',
      key: 'k0#3',
      resolution: { firstKey: 'k0', generation: 3 },
    })
    const third: EventBody = { type: 'tool_completed', ...whereOf(0), callId: 't_1_1_0#3', attempt: 1, value: 'and again' }
    const notes = messagesFor(transcriptOf([...twice, third])).filter(({ content }) => String(content).startsWith('[Note'))
    expect(notes).toHaveLength(1)
    expect(notes[0]?.content).toMatch(/- pay \(t_1_1_0\): paid\n- pay \(t_1_1_0#2\): paid again/)
  })
})

describe('the preview of a choice', () => {
  const preview = (bodies: readonly EventBody[], named: Partial<CallChoice>, by?: string) =>
    previewChoice(numbered(bodies), choice(named), by)

  it('the preview of a choice says which calls are kept, skipped, executed and made again, and under which ids', () => {
    expect(preview(AFTERWARDS, { keep: [idOf(1)], skip: [idOf(2)], redo: [idOf(0), idOf(3)], force: true }, 'ann')).toEqual({
      keeps: [idOf(1)],
      skips: [idOf(2)],
      executes: [],
      repeats: [
        { callId: idOf(0), as: `${idOf(0)}#2`, isEffect: true },
        { callId: idOf(3), as: `${idOf(3)}#2`, isEffect: false },
      ],
      next: { step: 'calls', run: 1, turn: 1 },
    })
    expect(preview(DURING_CALLS, { skip: [idOf(1)] })).toEqual({
      keeps: [idOf(0)],
      skips: [idOf(1)],
      executes: [idOf(2), idOf(3)],
      repeats: [],
      next: { step: 'calls', run: 1, turn: 1 },
    })
    expect(preview(AFTERWARDS, { keep: [0, 1, 2, 3].map(idOf) })).toMatchObject({ executes: [], next: { step: 'model_call', turn: 3 } })
  })

  it('the preview of a choice says that calls run while a person is asked about others, or a standing approval or an agent answers them', () => {
    const withLast = (more: Partial<Resolution>) =>
      DURING_CALLS.map((body) =>
        body.type === 'model_completed' ? { ...body, calls: body.calls.map((one) => (one.index === 3 ? { ...one, ...more } : one)) } : body,
      )
    const approval = { expiresMs: 1_000, onExpiry: 'deny' } as const
    const next = (more: Partial<Resolution>, named: Partial<CallChoice>) => {
      const found = preview(withLast(more), named)
      return 'refused' in found ? expect.fail(found.refused.reason) : found.next
    }
    const calls = { step: 'calls', run: 1, turn: 1 }
    expect(next({ approval }, { skip: [idOf(1)] })).toEqual(calls)
    const others = { skip: [idOf(1), idOf(2)] }
    expect(next({ approval }, others)).toBeUndefined()
    expect(next({ client: {} }, others)).toBeUndefined()
    expect(next({ client: { agent: { name: 'helper' } } }, others)).toEqual(calls)
    expect(next({ approval, approvedBy: { rule: 'r', for: 'context' } }, others)).toEqual(calls)
  })

  it('the preview of a choice refuses what the session would refuse, for the same reason', () => {
    for (const named of [{}, { redo: [idOf(2)] }, { redo: [idOf(0)], skip: [idOf(3)] }]) {
      const state = stateOf(AFTERWARDS)
      const refused = problemWithChoice(state, state.current ?? expect.fail(), choice(named), 'ann')
      expect(preview(AFTERWARDS, named, 'ann')).toEqual({ refused })
    }
    expect(preview(ENDED, { keep: [idOf(0)] })).toMatchObject({ refused: { code: 'not_in_error' } })
  })
})

describe('another resolution of a call that is made again', () => {
  const before: Resolution = { ...resolution(0, 'pay', 'external'), generation: 2, key: 'k0#2', firstKey: 'k0' }

  it('another resolution of a call keeps its generation, and the generation’s key if it is for the same effect', () => {
    const anew = { ...resolution(0, 'pay', 'external'), replayOf: 't_1_1_0' }
    expect(inPlaceOf(before, anew)).toEqual(before)
    expect(inPlaceOf(before, { ...anew, key: 'another' })).toMatchObject({ generation: 2, key: 'another', replayOf: 't_1_1_0' })
    expect(inPlaceOf(CALLS[0] as Resolution, anew)).toEqual(anew)
  })
})

it('a call keeps no arguments in the state once it has ended, but the events still have them', () => {
  const { current } = stateOf(ENDED)
  const input = ({ input: given }: CallState) => given
  expect(current?.calls.map(input)).toEqual([undefined, undefined, undefined, undefined])
  expect(requestedCallsOf(numbered(ENDED).slice(4)).map(input)).toEqual([0, 1, 2, 3].map((n) => ({ n })))
})
