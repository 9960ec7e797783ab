// Calls between agents as the pure core sees them: grants, limits, questions and what a child owes its caller.
import { describe, expect, it } from 'vitest'
import { childIdOf, openAgentCalls, questionOf } from '../../../src/session/agents/agent-calls.ts'
import { questionIdOf } from '../../../src/session/agents/caller.ts'
import { grantFor, raisedGrants } from '../../../src/session/agents/grants.ts'
import { askIn, callerIn, reportIn } from '../../../src/session/agents/signals.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { decide, NOTHING_DUE } from '../../../src/session/decide.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { apply, initialState } from '../../../src/session/fold/fold.ts'
import { budgetLines } from '../../../src/session/spending/budget.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const USAGE = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
const FACTS = {
  digest: 'd',
  limits: { maxTurns: 50 },
  sessionLimits: { maxUsd: 1 },
  checkpoint: 'turn',
  recovery: { automatic: [], maxAttempts: 1, baseDelayMs: 1, maxDelayMs: 1, perHour: 1 },
} as const

const resolution = (index: number, budget?: { maxUsd: number }): Resolution => ({
  index,
  tool: 'helper',
  effect: 'idempotent',
  key: `key-${index}`,
  inputDigest: `d${index}`,
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
  client: { agent: { name: 'helper', ...(budget && { budget }) } },
})

/** A session that has just asked for this many agents. */
function calling(
  count: number,
  budget?: { maxUsd: number },
): { state: SessionState; add(body: EventBody): void; ask(index: number): void } {
  let seq = 0
  let state: SessionState | undefined
  const add = (body: EventBody): void => {
    const event = { v: 1, seq: ++seq, at: seq, ...body } as SessionEvent
    if (event.type === 'session_started') state = initialState(event)
    else apply(state as SessionState, event)
  }
  add(sessionStarted())
  add({ type: 'message_received', messageId: 'm', content: 'go' })
  add({ type: 'run_started', run: 1, messageId: 'm' })
  add({ type: 'turn_started', run: 1, turn: 1, takes: ['m'] })
  add({ type: 'agent_declared', ...FACTS } as never)
  const calls = Array.from({ length: count }, (_, index) => resolution(index, budget))
  const content = calls.map(({ index }) => ({ type: 'tool_use' as const, id: `u${index}`, name: 'helper', input: { message: 'x' } }))
  add({ type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', content, stopReason: 'tool_use', usage: USAGE, calls })
  return {
    get state() {
      return state as SessionState
    },
    add,
    ask(index) {
      const call = (state as SessionState).current?.calls[index]
      const where = { run: 1, turn: 1, callId: `t_1_1_${index}`, tool: 'helper' }
      const { key = '', inputDigest } = resolution(index)
      add({ type: 'tool_issued', ...where, index, effect: 'idempotent', key, input: { message: 'x' }, inputDigest })
      const granted = call && grantFor(state as SessionState, call)
      const child = { session: childIdOf('s', key), agent: 'helper', ...(granted && { budget: granted }) }
      add({ type: 'answer_requested', ...where, child })
    },
  }
}

const leftUsd = (state: SessionState): number => budgetLines(state).find(({ unit }) => unit === 'usd')?.left ?? Number.NaN

describe('what agents that are called may spend', () => {
  it('what is granted to the calls of a turn never exceeds what the session has left', () => {
    for (const count of [1, 3, 7, 20]) {
      const session = calling(count)
      for (let index = 0; index < count; index++) session.ask(index)
      const granted = openAgentCalls(session.state).map(({ child }) => child.budget?.maxUsd ?? 0)
      expect(Math.max(...granted) - Math.min(...granted)).toBeLessThan(1e-6)
      expect(granted.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(1 + 1e-9)
      expect(leftUsd(session.state)).toBeGreaterThanOrEqual(0)
      expect(leftUsd(session.state)).toBeLessThan(1e-6)
    }
  })

  it('the tool’s own budget is granted first come, first served, within what is left', () => {
    const session = calling(3, { maxUsd: 0.4 })
    for (let index = 0; index < 3; index++) session.ask(index)
    expect(openAgentCalls(session.state).map(({ child }) => child.budget?.maxUsd)).toEqual([0.4, 0.4, 0.2])
  })

  it('what was granted stays reserved after an interrupt, until the child has reported what it spent', () => {
    const session = calling(1, { maxUsd: 0.4 })
    session.ask(0)
    session.add({ type: 'run_interrupted', run: 1 })
    expect(leftUsd(session.state)).toBe(0.6)
    const child = { session: childIdOf('s', 'key-0'), total: { tokens: 10, usd: 0.1 } }
    session.add({ type: 'spent', run: 1, turn: 1, callId: 't_1_1_0', tool: 'helper', attempt: 1, tokens: 10, usd: 0.1, child })
    expect(leftUsd(session.state)).toBe(0.9)
    expect(session.state.children).toEqual({ [child.session]: child.total })
  })

  it('a higher limit is shared by the open calls, and stays within it', () => {
    const session = calling(2)
    session.ask(0)
    session.ask(1)
    session.add({ type: 'budget_raised', scope: 'session', maxUsd: 3 })
    const raised = raisedGrants(session.state)
    expect(raised.map(({ budget }) => budget)).toEqual([{ maxUsd: 1.5 }, { maxUsd: 1.5 }])
  })
})

describe('open calls of agents', () => {
  it('a turn asks at most 20 agents at a time, and the next one when one has answered', () => {
    const session = calling(23)
    const first = decide(session.state, NOTHING_DUE)
    expect(first.do === 'ask' && first.calls).toHaveLength(20)
    for (let index = 0; index < 20; index++) session.ask(index)
    expect(session.state.status).toBe('running')
    expect(decide(session.state, NOTHING_DUE)).toEqual({ do: 'wait' })
    session.add({ type: 'tool_completed', run: 1, turn: 1, callId: 't_1_1_4', tool: 'helper', attempt: 1, value: 'x' })
    const next = decide(session.state, NOTHING_DUE)
    expect(next.do === 'ask' && next.calls.map(({ call }) => call.callId)).toEqual(['t_1_1_20'])
  })

  it('arguments with one text named message are asked as they are, all others as JSON', () => {
    expect(questionOf({ message: 'find it' })).toBe('find it')
    expect(questionOf({ message: 'find it', city: 'Rome' })).toBe('{"message":"find it","city":"Rome"}')
  })
})

describe('a child', () => {
  const caller = { sessionId: 'above', key: 'k', epoch: 'e', depth: 1, taskQueue: 'q' }
  const call = { seq: 5, run: 1, turn: 1, callId: 't_1_1_0', tool: 'helper' }

  function child(): { state: SessionState; add(body: EventBody): void } {
    let seq = 0
    let state: SessionState | undefined
    return {
      get state() {
        return state as SessionState
      },
      add(body) {
        const event = { v: 1, seq: ++seq, at: seq, ...body } as SessionEvent
        if (event.type === 'session_started') state = initialState(event)
        else apply(state as SessionState, event)
      },
    }
  }

  function asked(): ReturnType<typeof child> {
    const session = child()
    session.add(sessionStarted({ caller }))
    session.add({ type: 'message_received', messageId: 'k#0', content: 'x', call: { ...call, budget: { maxUsd: 0.5 } } })
    session.add({ type: 'run_started', run: 1, messageId: 'k#0' })
    session.add({ type: 'turn_started', run: 1, turn: 1, takes: ['k#0'] })
    return session
  }

  it('an answer is due until the caller has been told, and stays the answer', () => {
    const session = asked()
    expect(session.state.caller?.due).toBeUndefined()
    session.add({ type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: USAGE })
    expect(session.state.caller).toMatchObject({ outcome: { as: 'answered', run: 1 }, due: true, failures: 0 })
    session.add({ type: 'caller_told', as: 'answered', run: 1, tokens: 0, usd: 0 })
    expect(session.state.caller?.due).toBeUndefined()
  })

  it('each failure or interrupt makes the next question a new message; waiting for a budget or a resolution is none', () => {
    const session = asked()
    session.add({ type: 'error_entered', run: 1, code: 'budget_exhausted', reason: 'r', strategy: 'continue_run' })
    expect(session.state.caller?.outcome).toBeUndefined()
    session.add({ type: 'recovery_started', run: 1, strategy: 'continue_run' })
    session.add({ type: 'recovery_ended', run: 1, strategy: 'continue_run' })
    session.add({ type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'r', strategy: 'continue_run', nextAttemptAt: 99 })
    expect(session.state.caller?.outcome).toBeUndefined()
    session.add({ type: 'error_entered', run: 1, code: 'model_call_failed', reason: 'r', strategy: 'restart_run' })
    expect(session.state.caller).toMatchObject({ outcome: { as: 'failed', code: 'model_call_failed' }, due: true, failures: 1 })
    expect(questionIdOf(session.state.caller ?? expect.fail('no caller'))).toBe('k#1')
  })

  it('a run that is interrupted ends the question, unless another message continues it', () => {
    const stopped = asked()
    stopped.add({ type: 'run_interrupted', run: 1, reason: 'enough' })
    expect(stopped.state.caller?.outcome).toEqual({ as: 'interrupted', run: 1, reason: 'enough' })
    const corrected = asked()
    corrected.add({ type: 'message_received', messageId: 'other', content: 'do this instead' })
    corrected.add({ type: 'run_interrupted', run: 1 })
    expect(corrected.state.caller?.outcome).toBeUndefined()
  })

  it('a run that is interrupted in order to be regenerated leaves the question open', () => {
    const session = asked()
    session.add({ type: 'run_interrupted', run: 1, reason: 'regenerated' })
    const again = { intent: 1, messages: [{ messageId: 'k#0', seq: 2 }] }
    session.add({ type: 'rolled_back', toSeq: 1, upToSeq: 0, effects: [], again } as never)
    expect(session.state.caller?.outcome).toBeUndefined()
    expect(session.state.caller?.due).toBeUndefined()
    session.add({ type: 'run_started', run: 2, messageId: 'k#0', intent: 1 })
    session.add({ type: 'run_completed', run: 2, turns: 1, stopReason: 'end_turn', usage: USAGE })
    expect(session.state.caller).toMatchObject({ outcome: { as: 'answered', run: 2 }, due: true })
  })

  it('the allowance is what it had spent plus the budget of the question, and grows with that budget', () => {
    const session = asked()
    expect(budgetLines(session.state)).toMatchObject([{ scope: 'session', unit: 'usd', limit: 0.5, granted: true }])
    session.add({ type: 'allowance_raised', budget: { maxUsd: 0.7 } })
    expect(session.state.caller?.allowance).toEqual({ maxUsd: 0.7 })
  })

  it('signals with members of the wrong type are ignored', () => {
    expect(callerIn({ ...caller, depth: 6 })).toBeUndefined()
    expect(callerIn({ ...caller, sessionId: 'not an id' })).toBeUndefined()
    expect(askIn({ caller, call, agent: 'a', by: 'b' })).toBeUndefined()
    expect(askIn({ caller, call, agent: 'a', by: 'b', content: 'x' })).toEqual({ caller, call, agent: 'a', by: 'b', content: 'x' })
    expect(reportIn({ key: 'k', child: 's/1', agent: 'a', call, as: 'nonsense' })).toBeUndefined()
    const spent = { total: { tokens: -1, usd: Number.NaN } }
    expect(reportIn({ key: 'k', child: 's/1', agent: 'a', call, as: 'answered', value: 1, spent })?.spent.total).toEqual({
      tokens: 0,
      usd: 0,
    })
  })
})
