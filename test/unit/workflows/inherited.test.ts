// Which answers of an execution that no worker can replay its successor uses in place of new ones.
import { describe, expect, it } from 'vitest'
import type { CallModelResult, ExecuteToolResult, PriorAnswer } from '../../../src/calls/activities.ts'
import type { EventBody } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import type { CallState, RunState, SessionState } from '../../../src/session/state.ts'
import { EndedBefore, startInheriting } from '../../../src/workflows/inherited.ts'
import type { Journal } from '../../../src/workflows/journal.ts'

const UNREPLAYABLE = { executionId: 'e1', reason: 'its history differs' }
const answer = (turn: number, calls: number): PriorAnswer => {
  const result = { kind: 'completed', calls: Array.from({ length: calls }) } as unknown as CallModelResult
  return { of: 'model', run: 1, turn, result }
}
const done = (callId: string, turn = 1): PriorAnswer => ({ of: 'call', run: 1, turn, callId, result: completed })
const lost = (callId: string, turn = 1): PriorAnswer => ({ of: 'call', run: 1, turn, callId })
const completed = { kind: 'completed', attempt: 1, startedAt: 1, worker: 'w', value: 'receipt' } as ExecuteToolResult

const call = (callId: string, effect: Resolution['effect'], status: CallState['status'] = 'issued') =>
  ({ callId, status, resolution: { tool: 'pay', effect, timeoutMs: 1_000 } }) as CallState

/** A session in turn 1 of run 1: the model is asked, or these calls are in progress. */
function sessionIn(phase: RunState['phase'], calls: CallState[] = []): SessionState {
  return { current: { run: 1, turn: 1, phase, calls } } as unknown as SessionState
}

const inherit = (answers: PriorAnswer[], state?: SessionState) => startInheriting({ unreplayable: UNREPLAYABLE, answers }, state)

describe('a model call', () => {
  it('a model call of the stored turn uses the answer of the earlier execution, once', async () => {
    const inherited = inherit([answer(1, 0)], sessionIn('model'))
    expect(await inherited.model(1, 1)).toMatchObject({ kind: 'completed' })
    expect(inherited.model(1, 1)).toBeUndefined()
  })

  it('a model call of a turn that is not stored uses the earlier answer only if calls followed, in this turn or a later one', () => {
    const inherited = inherit([answer(2, 0), answer(3, 1), answer(4, 0)], sessionIn('tools'))
    expect(inherited.model(1, 2)).toBeDefined()
    expect(inherited.model(1, 3)).toBeDefined()
    expect(inherited.model(1, 4)).toBeUndefined()
  })
})

it('a session has used up what it inherited once it asks for something else', () => {
  const inherited = inherit([answer(1, 1), done('t_1_1_0')], sessionIn('model'))
  expect([inherited.isUsedUp(), inherited.model(1, 1), inherited.isUsedUp()]).toEqual([false, expect.anything(), false])
  expect([inherited.model(1, 2), inherited.isUsedUp()]).toEqual([undefined, true])
  expect(inherit([]).isUsedUp()).toBe(true)
})

describe('a tool call', () => {
  it('a tool call that the session knows uses its earlier result; an unknown one only if its turn’s answer is inherited', async () => {
    const inherited = inherit(
      [done('t_1_1_0'), done('t_1_2_0', 2), answer(3, 1), done('t_1_3_0', 3)],
      sessionIn('tools', [call('t_1_1_0', 'external')]),
    )
    expect(await inherited.call('t_1_1_0')).toMatchObject({ value: 'receipt' })
    expect(inherited.call('t_1_2_0')).toBeUndefined()
    expect(inherited.call('t_1_3_0')).toBeDefined()
  })

  it('a tool call without an earlier result counts as lost, and so does an external one in progress', async () => {
    const inherited = inherit([lost('t_1_1_0')], sessionIn('tools', [call('t_1_1_0', 'idempotent'), call('t_1_1_1', 'external')]))
    await expect(inherited.call('t_1_1_0')).rejects.toThrow(EndedBefore)
    await expect(inherited.call('t_1_1_1')).rejects.toThrow(EndedBefore)
  })

  it('a tool call of a session without a predecessor is simply made', () => {
    expect(startInheriting({}, sessionIn('tools', [call('t_1_1_0', 'external')])).call('t_1_1_0')).toBeUndefined()
  })
})

describe('a stop', () => {
  const settled = (answers: PriorAnswer[], effect: Resolution['effect']): EventBody[] => {
    const state = sessionIn('tools', [call('t_1_1_0', effect)])
    const recorded: EventBody[] = []
    const journal = { state, append: (body: EventBody) => void recorded.push(body) } as unknown as Journal
    inherit(answers, state).settle(journal, state.current?.calls ?? [])
    return recorded
  }
  const of = (result: object): PriorAnswer => ({ of: 'call', run: 1, turn: 1, callId: 't_1_1_0', result: result as ExecuteToolResult })

  it('a stop does not lose the newest result of a call', () => {
    const again = of({ kind: 'again', attempt: 1, afterMs: 1 })
    expect(settled([again, done('t_1_1_0')], 'idempotent')).toMatchObject([{ type: 'tool_completed', value: 'receipt' }])
    expect(settled([of({ kind: 'failed', attempt: 1, code: 'gone', message: 'no' })], 'read')).toMatchObject([
      { type: 'tool_failed', code: 'gone' },
    ])
  })

  it.each([
    ['has no result', lost('t_1_1_0')],
    ['was interrupted in its body', of({ kind: 'interrupted', attempt: 1, begun: true })],
    ['has thrown', of({ kind: 'unknown', attempt: 1, message: 'threw' })],
  ])('a stop leaves unknown the outcome of an external call that %s', (_, one) => {
    expect(settled([one], 'external')).toMatchObject([{ type: 'tool_unknown', aliveForMs: expect.any(Number) }])
  })

  it('a stop records that an unanswered idempotent call may have taken effect, and nothing for a call that has not begun', () => {
    expect(settled([lost('t_1_1_0')], 'idempotent')).toMatchObject([{ type: 'tool_failed', code: 'interrupted' }])
    expect(settled([of({ kind: 'interrupted', attempt: 1, begun: false })], 'external')).toEqual([])
    expect(settled([of({ kind: 'not_begun', attempt: 1 })], 'external')).toEqual([])
  })
})
