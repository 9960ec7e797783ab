// When a run must end, and what happens to a message whose deadline passes before its run begins.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { type Deadline, deadlinesInInbox, deadlinesOf } from '../../../src/session/deadlines.ts'
import { decide, type SessionStep, dueAt } from '../../../src/session/decide.ts'
import { defined } from '../../../src/session/defined.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { RecoveryStrategy } from '../../../src/session/agent-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { DEFAULT_RECOVERY } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

type At = [at: number, body: EventBody]

const STARTED: At = [0, sessionStarted()]
const said = (at: number, messageId: string, deadlineMs?: number): At => [
  at,
  { type: 'message_received', messageId, content: messageId, ...defined({ deadlineMs }) },
]
const run = (at: number, number: number, messageId: string): At => [at, { type: 'run_started', run: number, messageId }]
const turn = (at: number, number: number, ...takes: string[]): At => [at, { type: 'turn_started', run: number, turn: 1, takes }]
const declared = (at: number, limits: { run?: number; session?: number }): At => [
  at,
  {
    type: 'agent_declared',
    digest: 'd',
    limits: { maxTurns: 9, ...(limits.run !== undefined && { deadlineMs: limits.run }) },
    ...(limits.session !== undefined && { sessionLimits: { deadlineMs: limits.session } }),
    checkpoint: 'turn',
    recovery: DEFAULT_RECOVERY,
  },
]
const failed = (at: number, strategy: RecoveryStrategy, code = 'c'): At => [
  at,
  { type: 'error_entered', run: 1, code, reason: 'r', strategy },
]
const waits = (at: number, strategy: RecoveryStrategy, nextAttemptAt: number): At => [
  at,
  { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy, nextAttemptAt },
]
const recovered = (at: number, strategy: RecoveryStrategy, by: 'a person' | 'pawl'): At[] => [
  [at, { type: 'recovery_started', run: 1, strategy, ...(by === 'pawl' && { automatic: true }) }],
  [at, { type: 'recovery_ended', run: 1, strategy }],
]

function stateOf(...events: At[]): SessionState {
  const folded = fold(
    undefined,
    [STARTED, ...events].map(([at, body], index) => ({ v: 1, seq: index + 1, at, ...body }) as SessionEvent),
  )
  return folded ?? expect.fail()
}

const next = (state: SessionState, now: number): SessionStep => decide(state, dueAt(now))
const times = (deadlines: Deadline[]): number[] => deadlines.map(({ at }) => at)
const deadlinesIn = (state: SessionState): number[] => times(deadlinesOf(state, state.current ?? expect.fail()))
const FAILS = { do: 'fail_run', code: 'deadline_exceeded' }

describe('the deadline of a message', () => {
  it('a message’s deadline counts from its acceptance, and ends its run even in the middle of a turn', () => {
    const state = stateOf(said(100, 'm', 50), run(120, 1, 'm'), turn(121, 1, 'm'))
    expect(deadlinesIn(state)).toEqual([150])
    expect(next(state, 149)).toMatchObject({ do: 'call_model' })
    expect(next(state, 150)).toMatchObject({ ...FAILS, reason: expect.stringContaining("its message's deadline") })
  })

  it('a message’s deadline becomes that of the run in progress that takes it, and replaces an earlier message’s', () => {
    const taken = [said(0, 'm', 500), run(1, 1, 'm'), turn(2, 1, 'm'), said(10, 'n', 50), said(11, 'o')]
    expect(deadlinesIn(stateOf(...taken, turn(20, 1, 'n', 'o')))).toEqual([60])
    expect(deadlinesIn(stateOf(...taken, said(12, 'p', 900), turn(20, 1, 'n', 'o', 'p')))).toEqual([912])
  })

  it('the deadline of a message does not replace the agent’s deadline: whichever comes first ends the run', () => {
    const state = stateOf(said(0, 'm', 500), run(1, 1, 'm'), turn(2, 1, 'm'), declared(3, { run: 100, session: 300 }))
    expect(deadlinesIn(state)).toEqual([101, 500, 300])
    expect(next(state, 101)).toMatchObject({ ...FAILS, reason: expect.stringContaining('limits.deadline') })
  })

  it('a message whose deadline passes while it waits does not affect the previous run; its own ends without a model call', () => {
    const answered: EventBody = {
      type: 'model_completed',
      run: 1,
      turn: 1,
      attempt: 1,
      model: 'm',
      content: [],
      stopReason: 'pause_turn',
      usage: NO_USAGE,
      calls: [],
    }
    const busy = [said(0, 'm'), run(1, 1, 'm'), turn(2, 1, 'm'), said(3, 'l'), said(3, 'n', 50), said(4, 'o')]
    const between = stateOf(...busy, [60, answered])
    expect(next(between, 52)).toMatchObject({ do: 'start_turn', takes: ['l', 'n', 'o'] })
    // Messages keep their order, so the one after it waits too.
    expect(next(between, 53)).toMatchObject({ do: 'start_turn', takes: ['l'] })
    const ended: EventBody = { type: 'run_completed', run: 1, turns: 1, stopReason: 'end_turn', usage: NO_USAGE }
    const after: At[] = [...busy, [59, { type: 'turn_started', run: 1, turn: 2, takes: ['l'] }], [60, ended], run(61, 2, 'n')]
    const begun = stateOf(...after)
    // The others open the next run, which is not late.
    expect(next(begun, 61)).toMatchObject({ do: 'start_turn', takes: ['n'] })
    expect(next(stateOf(...after, turn(62, 2, 'n')), 62)).toMatchObject(FAILS)
  })

  it('a message whose deadline has passed does not wake a model that sleeps, and keeps no later message from it', () => {
    const terms = { effect: 'read', inputDigest: 'd', schemaDigest: 's', timeoutMs: 1, retry: { maxRetries: 0, baseDelayMs: 1 } } as const
    const sleeps = { index: 0, tool: 'sleep', ...terms, verify: false, client: { timeoutMs: 9_000, sleeps: true as const } }
    const content = [{ type: 'tool_use' as const, id: 'x', name: 'sleep', input: {} }]
    const answer = { model: 'm', content, stopReason: 'tool_use' as const, usage: NO_USAGE, calls: [sleeps], attempt: 1 }
    const asleep: At[] = [
      [0, said(0, 'm')[1]],
      run(1, 1, 'm'),
      turn(2, 1, 'm'),
      said(3, 'late', 50),
      [100, { type: 'model_completed', run: 1, turn: 1, ...answer } as EventBody],
      [101, { type: 'sleep_started', run: 1, turn: 1, callId: 't_1_1_0', tool: 'sleep', expiresAt: 9_000 }],
    ]
    expect(next(stateOf(...asleep), 101)).toEqual({ do: 'wait' })
    const state = stateOf(...asleep, said(102, 'later', 500))
    expect(next(state, 103)).toMatchObject({ do: 'expire', call: { callId: 't_1_1_0' } })
    const woken: EventBody = { type: 'tool_completed', run: 1, turn: 1, callId: 't_1_1_0', tool: 'sleep', attempt: 0, value: {} }
    expect(next(stateOf(...asleep, said(102, 'later', 500), [103, woken]), 104)).toMatchObject({ do: 'start_turn', takes: ['later'] })
  })

  it('a message’s deadline keeps counting during a pause, unlike the agent’s', () => {
    const paused: At[] = [said(0, 'm', 150), run(1, 1, 'm'), turn(2, 1, 'm'), declared(3, { run: 300 }), [100, { type: 'session_paused' }]]
    expect(next(stateOf(...paused), 999)).toEqual({ do: 'wait' })
    const unpaused = stateOf(...paused, [200, { type: 'session_unpaused' }])
    expect(deadlinesIn(unpaused)).toEqual([401, 150])
    expect(next(unpaused, 200)).toMatchObject(FAILS)
  })

  it('the deadline of a message is watched for the first 20 waiting messages that have one', () => {
    const waiting = Array.from({ length: 50 }, (_, n) => said(n, `m${n}`, n % 2 === 0 ? 1_000 : undefined))
    expect(times(deadlinesInInbox(stateOf(...waiting)))).toEqual(Array.from({ length: 20 }, (_, n) => 1_000 + 2 * n))
  })
})

describe('the deadline of a session', () => {
  it('a session’s deadline counts from its creation, and applies to a run once a worker has declared it in that run', () => {
    const events = [said(500, 'm'), run(501, 1, 'm'), turn(502, 1, 'm')]
    const state = stateOf(...events, declared(503, { session: 1_000 }))
    expect(next(state, 999)).toMatchObject({ do: 'call_model' })
    expect(next(state, 1_000)).toMatchObject({ ...FAILS, reason: expect.stringContaining('sessionLimits.deadline') })
    const ended: EventBody = { type: 'run_interrupted', run: 1 }
    // A build with another limit may be deployed by now.
    const later = stateOf(
      ...events,
      declared(503, { session: 1_000 }),
      [504, ended],
      said(2_000, 'n'),
      run(2_001, 2, 'n'),
      turn(2_002, 2, 'n'),
    )
    expect(next(later, 2_003)).toMatchObject({ do: 'call_model' })
  })
})

describe('a recovery', () => {
  const events = [said(0, 'm', 500), run(10, 1, 'm'), turn(11, 1, 'm'), declared(12, { run: 300 })]

  it('a recovery that pawl carries out by itself does not change the deadlines of the run', () => {
    const waiting = stateOf(...events, waits(100, 'continue_run', 200))
    expect(deadlinesIn(waiting)).toEqual([310, 500])
    expect(deadlinesIn(stateOf(...events, waits(100, 'continue_run', 200), ...recovered(200, 'continue_run', 'pawl')))).toEqual([310, 500])
    const restarted = [...events, waits(100, 'restart_run', 200), ...recovered(200, 'restart_run', 'pawl')]
    expect(times(deadlinesInInbox(stateOf(...restarted)))).toEqual([500])
    const again = [...restarted, run(201, 2, 'm')]
    expect(next(stateOf(...again), 310)).toMatchObject({ do: 'start_turn', takes: ['m'] })
    expect(deadlinesIn(stateOf(...again, turn(202, 2, 'm')))).toEqual([310, 500])
    const twice = [...again, turn(202, 2, 'm'), waits(220, 'restart_run', 230), ...recovered(230, 'restart_run', 'pawl'), run(231, 3, 'm')]
    expect(deadlinesIn(stateOf(...twice, turn(232, 3, 'm')))).toEqual([310, 500])
  })

  it.each(['continue_run', 'restart_run'] as const)(
    'a recovery by a person restarts the agent’s deadline, but not the message’s deadline: %s',
    (strategy) => {
      const after = [...events, failed(100, strategy), ...recovered(400, strategy, 'a person')]
      const again = strategy === 'restart_run' ? [run(400, 2, 'm'), turn(400, 2, 'm')] : []
      // A worker with another limit may be deployed by now.
      expect(deadlinesIn(stateOf(...after, ...again))).toEqual([500])
      expect(deadlinesIn(stateOf(...after, ...again, declared(410, { run: 200 })))).toEqual([600, 500])
    },
  )

  it.each(['continue_run', 'restart_run'] as const)(
    'a recovery by a person after a missed deadline gives the run more time: %s',
    (strategy) => {
      const after = [...events, failed(310, strategy, 'deadline_exceeded'), ...recovered(700, strategy, 'a person')]
      const again = strategy === 'restart_run' ? [run(700, 2, 'm'), turn(700, 2, 'm')] : []
      expect(deadlinesIn(stateOf(...after, ...again))).toEqual([])
      expect(next(stateOf(...after, ...again), 9_999)).toMatchObject({ do: 'call_model' })
      expect(deadlinesIn(stateOf(...after, ...again, declared(710, { run: 300 })))).toEqual([1_000])
    },
  )

  it('a recovery by a person during a pause makes the agent’s deadline count from the end of the pause', () => {
    const paused: At[] = [failed(100, 'continue_run'), [150, { type: 'session_paused' }], ...recovered(200, 'continue_run', 'a person')]
    const state = stateOf(...events, ...paused, [250, { type: 'session_unpaused' }], declared(260, { run: 300 }))
    expect(deadlinesIn(state)).toEqual([550, 500])
  })

  it('a recovery by a person keeps the deadlines of messages that no run has taken', () => {
    const state = stateOf(...events, said(50, 'n', 100), failed(60, 'restart_run'), ...recovered(70, 'restart_run', 'a person'))
    expect(times(deadlinesInInbox(state))).toEqual([500, 150])
    const late = stateOf(
      ...events,
      said(50, 'n', 900),
      failed(510, 'restart_run', 'deadline_exceeded'),
      ...recovered(520, 'restart_run', 'a person'),
    )
    expect(times(deadlinesInInbox(late))).toEqual([950])
  })
})
