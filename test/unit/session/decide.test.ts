// What a session does next, and how a call is admitted.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { admit, decide, dueAt, MAX_PARALLEL_READS } from '../../../src/session/decide.ts'
import { childIdOf } from '../../../src/session/agents/agent-calls.ts'
import { shortHash } from '../../../src/session/digest.ts'
import type { Effect, Resolution } from '../../../src/session/call-facts.ts'
import type { EventOf } from '../../../src/session/events.ts'
import { initialState } from '../../../src/session/fold/fold.ts'
import type { CallState, RunState, SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const STARTED: EventOf<'session_started'> = { v: 1, seq: 1, at: 0, ...sessionStarted() }
const RUN: RunState = {
  run: 3,
  intent: 1,
  messageId: 'm',
  metadata: {},
  startedAt: 1_000,
  turn: 2,
  phase: 'turn_due',
  calls: [],
  usage: NO_USAGE,
  taken: [],
  takenBytes: 0,
  effects: [],
  moreEffects: 0,
}

function state(more: Partial<SessionState> = {}): SessionState {
  return { ...initialState(STARTED), run: 3, ...more }
}

function running(more: Partial<RunState>, about: Partial<SessionState> = {}): SessionState {
  return state({ status: 'running', current: { ...RUN, ...more }, ...about })
}

function call(index: number, effect: Effect, status: CallState['status'] = 'requested', more: Partial<Resolution> = {}): CallState {
  const resolution = {
    index,
    tool: 't',
    effect,
    inputDigest: `d${index}`,
    schemaDigest: 's',
    timeoutMs: 1,
    retry: { maxRetries: 0, baseDelayMs: 0 },
    verify: false,
    ...more,
  }
  return { callId: `t_3_2_${index}`, index, status, resolution }
}

function callsNext(...calls: CallState[]): number[] {
  const decision = decide(running({ phase: 'tools', calls }), dueAt(0))
  return decision.do === 'run_calls' ? decision.calls.map((one) => one.index) : []
}

const reads = (count: number) => Array.from({ length: count }, (_, index) => call(index, 'read'))

describe('a session', () => {
  it('a session waits while it has no message', () => {
    expect(decide(state(), dueAt(0))).toEqual({ do: 'wait' })
  })

  it('a session opens the next run with the oldest message', () => {
    const inbox = [{ messageId: 'm1' }, { messageId: 'm2' }]
    expect(decide(state({ inbox }), dueAt(0))).toEqual({ do: 'start_run', run: 4, message: inbox[0] })
  })

  it('a session takes all waiting messages into the next turn', () => {
    const inbox = [{ messageId: 'm1' }, { messageId: 'm2' }]
    expect(decide(running({}, { inbox }), dueAt(0))).toEqual({ do: 'start_turn', run: 3, turn: 3, takes: ['m1', 'm2'] })
    expect(decide(running({}), dueAt(0))).toEqual({ do: 'start_turn', run: 3, turn: 3, takes: [] })
  })

  it('a session calls the model once a turn has started', () => {
    expect(decide(running({ phase: 'model' }), dueAt(0))).toEqual({ do: 'call_model', run: 3, turn: 2 })
  })

  it('a session completes a run that has its answer, even if another message has arrived', () => {
    const answered = running({ phase: 'answered', stopReason: 'refusal' }, { inbox: [{ messageId: 'm' }] })
    expect(decide(answered, dueAt(0))).toEqual({ do: 'complete_run', run: 3, turns: 2, stopReason: 'refusal', usage: NO_USAGE })
  })

  it('a session ends a run that has reached its limit of turns', () => {
    expect(decide(running({ turn: 4, limits: { maxTurns: 5 } }), dueAt(0))).toMatchObject({ do: 'start_turn' })
    expect(decide(running({ turn: 5, limits: { maxTurns: 5 } }), dueAt(0))).toMatchObject({ do: 'fail_run', run: 3, code: 'max_turns' })
  })

  it('a session ends a run whose deadline has passed, unless it has its answer', () => {
    const limits = { maxTurns: 50, deadlineMs: 500 }
    expect(decide(running({ limits }), dueAt(1_499))).toMatchObject({ do: 'start_turn' })
    expect(decide(running({ limits }), dueAt(1_500))).toMatchObject({ do: 'fail_run', code: 'deadline_exceeded' })
    expect(decide(running({ limits, phase: 'answered' }), dueAt(9_999))).toMatchObject({ do: 'complete_run' })
  })

  it('a session waits in an error until a message arrives, unless it leaves the error by itself', () => {
    const error = { code: 'c', reason: 'r', at: 0, strategy: 'restart_run' as const }
    const failed = state({ status: 'error', error, current: { ...RUN, phase: 'model' } })
    expect(decide(failed, dueAt(0))).toEqual({ do: 'wait' })
    expect(decide({ ...failed, inbox: [{ messageId: 'm' }] }, dueAt(0))).toMatchObject({ do: 'start_run', run: 4 })
    expect(decide({ ...failed, error: { ...error, strategy: 'automatic' } }, dueAt(0))).toEqual({ do: 'call_model', run: 3, turn: 2 })
  })

  it('a session decides the same for the same state, and does not change the state', () => {
    const before = running({ phase: 'tools', calls: reads(3) })
    const text = JSON.stringify(before)
    expect(decide(before, dueAt(7))).toEqual(decide(before, dueAt(7)))
    expect(JSON.stringify(before)).toBe(text)
  })
})

describe('the calls of a turn', () => {
  it('the calls of a turn that are reads run concurrently, up to a maximum', () => {
    expect(callsNext(...reads(3))).toEqual([0, 1, 2])
    expect(callsNext(...reads(MAX_PARALLEL_READS + 5))).toHaveLength(MAX_PARALLEL_READS)
  })

  it('the calls of a turn that are not reads run alone, in the model’s order, after all reads before them', () => {
    const calls = [call(0, 'read'), call(1, 'idempotent'), call(2, 'external'), call(3, 'read')]
    const ended = (...indexes: number[]) =>
      calls.map((one) => (indexes.includes(one.index) ? { ...one, status: 'completed' as const } : one))
    expect(callsNext(...calls)).toEqual([0])
    expect(callsNext(...ended(0))).toEqual([1])
    expect(callsNext(...ended(0, 1))).toEqual([2])
    expect(callsNext(...ended(0, 1, 2))).toEqual([3])
  })

  it('issued calls of a turn without a result are continued; failed and unknown calls already have theirs', () => {
    expect(callsNext(call(0, 'read', 'issued'), call(1, 'read', 'failed'), call(2, 'read', 'unknown'), call(3, 'read'))).toEqual([0, 3])
  })
})

describe('a call', () => {
  const unknownOf = (resolution: Partial<Resolution>) => ({
    t_1_1_0: { run: 1, turn: 1, attempt: 1, input: null, resolution: call(0, 'external', 'unknown', resolution).resolution },
  })

  it('a call that cannot run is answered with the reason', () => {
    const invalid = { code: 'unknown_tool' as const, message: 'none' }
    expect(admit(state(), call(0, 'read', 'issued', { invalid }))).toEqual({ as: 'invalid', ...invalid })
  })

  it('a call is executed if nothing prevents it', () => {
    expect(admit(state(), call(0, 'external', 'issued', { key: 'k' }))).toEqual({ as: 'execute' })
  })

  it('a call whose key has completed is not executed, but replayed', () => {
    const done = state({ keys: { [shortHash('k')]: 't_1_1_0' } })
    expect(admit(done, call(0, 'idempotent', 'issued', { key: 'k' }))).toEqual({ as: 'replay', of: 't_1_1_0' })
    expect(admit(done, call(0, 'idempotent', 'issued', { key: 'other' }))).toEqual({ as: 'execute' })
  })

  it('a call of an agent in the background is replayed only while the agent is at work', () => {
    const done = state({ keys: { [shortHash('k')]: 't_1_1_0' } })
    const again = call(0, 'idempotent', 'issued', { key: 'k', client: { agent: { name: 'helper', background: true } } })
    const working = { callId: 't_1_1_0', key: 'k', run: 1, turn: 1, intent: 1, tool: 'helper', seq: 9, agent: 'helper' }
    const atWork = { ...done, background: { [childIdOf(done.sessionId, 'k')]: working } }
    expect(admit(atWork, again)).toEqual({ as: 'replay', of: 't_1_1_0' })
    expect(admit(done, again)).toEqual({ as: 'execute' })
  })

  it('a call with the key, or with the tool and input, of an unknown call has that call verified first', () => {
    const unknown = state({ unknown: unknownOf({ key: 'k', inputDigest: 'd' }) })
    expect(admit(unknown, call(0, 'external', 'issued', { key: 'k', inputDigest: 'x' }))).toEqual({ as: 'verify_first', of: 't_1_1_0' })
    expect(admit(unknown, call(0, 'external', 'issued', { key: 'x', inputDigest: 'd' }))).toEqual({ as: 'verify_first', of: 't_1_1_0' })
    expect(admit(unknown, call(0, 'external', 'issued', { key: 'x', inputDigest: 'x' }))).toEqual({ as: 'execute' })
  })

  it('a read is executed regardless of what has completed or is unknown', () => {
    const much = state({ keys: { [shortHash('k')]: 't_1_1_0' }, unknown: unknownOf({ inputDigest: 'd' }) })
    expect(admit(much, call(0, 'read', 'issued', { inputDigest: 'd' }))).toEqual({ as: 'execute' })
  })
})
