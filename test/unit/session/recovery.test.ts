// Which recovery a failed run is offered, depending on what failed and what the run has done, and when pawl carries it out by itself.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { decide, dueAt, isRunInProgress } from '../../../src/session/decide.ts'
import type { AutomaticStrategy, RecoveryPolicy } from '../../../src/session/agent-facts.ts'
import type { EventBody, EventOf, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { chooseRecovery, DEFAULT_RECOVERY, nextAttemptAt, problemWith, progressOf } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const CALL = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
const RESOLUTION: Resolution = {
  index: 0,
  tool: 'pay',
  effect: 'external',
  key: 'k',
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1_000,
  retry: { maxRetries: 0, baseDelayMs: 10 },
  verify: false,
}
const OPENED: EventBody[] = [
  sessionStarted(),
  { type: 'message_received', messageId: 'm', content: 'go' },
  { type: 'run_started', run: 1, messageId: 'm' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
]
const ASKED: EventBody[] = [
  {
    type: 'model_completed',
    run: 1,
    turn: 1,
    attempt: 1,
    model: 'scripted',
    content: [{ type: 'tool_use', id: 'x', name: 'pay', input: {} }],
    stopReason: 'tool_use',
    usage: NO_USAGE,
    calls: [RESOLUTION],
  },
  { type: 'tool_issued', ...CALL, index: 0, effect: 'external', key: 'k', inputDigest: 'd', input: {} },
]
const NOTHING: EventBody[] = OPENED
const EFFECT: EventBody[] = [...OPENED, ...ASKED, { type: 'tool_completed', ...CALL, attempt: 1, value: 1, effectId: 'pay_1' }]
const UNKNOWN: EventBody[] = [...OPENED, ...ASKED, { type: 'tool_unknown', ...CALL, attempt: 1, message: 'who knows' }]

function stateOf(bodies: readonly EventBody[]): SessionState {
  const events = bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 1, ...body }) as SessionEvent)
  return fold(undefined, events) ?? expect.fail()
}

const ALL = ['continue_run', 'selective', 'restart_from_last_effect', 'restart_run', 'abandon', 'manual']
const WITHOUT_EFFECT = ['continue_run', 'restart_run', 'abandon', 'manual']
const AFTER_UNKNOWN = ['selective', 'abandon', 'manual']

describe('the recovery of a run', () => {
  it.each<[string, { code: string; transient?: boolean }, string, EventBody[], string, string[]]>([
    [
      'a failure that may be over by itself',
      { code: 'overloaded_error', transient: true },
      'nothing',
      NOTHING,
      'continue_run',
      WITHOUT_EFFECT,
    ],
    ['a failure that may be over by itself', { code: 'overloaded_error', transient: true }, 'an effect', EFFECT, 'continue_run', ALL],
    ['a failure that may be over by itself', { code: 'overloaded_error', transient: true }, 'unknown', UNKNOWN, 'manual', AFTER_UNKNOWN],
    ['five dead workers', { code: 'worker_died' }, 'nothing', NOTHING, 'continue_run', WITHOUT_EFFECT],
    ['the limit of turns', { code: 'max_turns' }, 'nothing', NOTHING, 'continue_run', WITHOUT_EFFECT],
    ['an output that does not match', { code: 'invalid_output' }, 'an effect', EFFECT, 'continue_run', ALL],
    ['the deadline', { code: 'deadline_exceeded' }, 'an effect', EFFECT, 'continue_run', ALL],
    ['the deadline', { code: 'deadline_exceeded' }, 'unknown', UNKNOWN, 'manual', AFTER_UNKNOWN],
    ['a request that is too long', { code: 'model_context_window_exceeded' }, 'nothing', NOTHING, 'abandon', WITHOUT_EFFECT],
    ['a request that is too long', { code: 'request_too_large' }, 'an effect', EFFECT, 'abandon', ALL],
    ['a fault', { code: 'invalid_request_error' }, 'nothing', NOTHING, 'restart_run', WITHOUT_EFFECT],
    ['a fault', { code: 'invalid_request_error' }, 'an effect', EFFECT, 'restart_from_last_effect', ALL],
    ['a fault', { code: 'invalid_request_error' }, 'unknown', UNKNOWN, 'manual', AFTER_UNKNOWN],
  ])('the recovery of a run suits %s (%o) and what the run has done: %s', (_, error, __, events, strategy, options) => {
    expect(chooseRecovery(stateOf(events), error)).toEqual({ strategy, options })
  })

  it('a run that accepted more messages than can be put back is not restarted', () => {
    const state = stateOf(NOTHING)
    const run = state.current ?? expect.fail()
    run.tookMore = true
    expect(chooseRecovery(state, { code: 'invalid_request_error' })).toEqual({
      strategy: 'abandon',
      options: ['continue_run', 'abandon', 'manual'],
    })
    expect(problemWith(state, run, 'restart_run')).toMatchObject({ code: 'too_many_messages' })
  })

  it('the recovery of a run reports what the run had done', () => {
    const progressAfter = (events: readonly EventBody[]) => {
      const state = stateOf(events)
      return progressOf(state, state.current ?? expect.fail())
    }
    expect(progressAfter(EFFECT)).toEqual({
      completed: [{ callId: 't_1_1_0', tool: 'pay', effectId: 'pay_1' }],
      failed: [],
      pending: [],
      unknown: [],
    })
    expect(progressAfter(UNKNOWN)).toMatchObject({ completed: [], unknown: ['t_1_1_0'] })
    expect(progressAfter([...OPENED, ...ASKED]).pending).toEqual([{ callId: 't_1_1_0', tool: 'pay' }])
  })
})

describe('the recovery of a run without a person', () => {
  const OVERLOADED = { code: 'overloaded_error', transient: true }
  const NOW = 1_000_000
  const HOUR_MS = 3_600_000
  const byItself = (strategy: AutomaticStrategy): EventBody => ({ type: 'recovery_started', run: 1, strategy, automatic: true })
  const declared = (policy: Partial<RecoveryPolicy>): EventBody => {
    return {
      type: 'agent_declared',
      digest: 'd',
      limits: { maxTurns: 9 },
      checkpoint: 'turn',
      recovery: { ...DEFAULT_RECOVERY, ...policy },
    }
  }
  const waitAfter = (events: readonly EventBody[], error: { code: string; transient?: boolean } = OVERLOADED): number | undefined => {
    const state = stateOf(events)
    const at = nextAttemptAt(state, error, chooseRecovery(state, error).strategy, NOW)
    return at === undefined ? undefined : at - NOW
  }
  const tried = (times: number): EventBody[] => [...OPENED, ...Array.from({ length: times }, () => byItself('continue_run'))]

  it('automatic recovery waits twice as long each time, from 5 s to 10 min, and stops after ten attempts in a row', () => {
    const seconds = [5, 10, 20, 40, 80, 160, 320, 600, 600, 600]
    for (const [times, expected] of seconds.entries()) {
      const waitedMs = waitAfter(tried(times)) ?? expect.fail()
      expect(waitedMs).toBeGreaterThanOrEqual(expected * 750)
      expect(waitedMs).toBeLessThanOrEqual(expected * 1_250)
    }
    expect(waitAfter(tried(10))).toBeUndefined()
  })

  it('automatic recovery does not depend on the clock, so a replay makes the same decision', () => {
    const state = stateOf(tried(3))
    const [early, late] = [0, 1e12].map((now) => (nextAttemptAt(state, OVERLOADED, 'continue_run', now) ?? expect.fail()) - now)
    expect(late).toBe(early)
  })

  it.each<[string, { code: string; transient?: boolean }, EventBody[]]>([
    ['a limit, which another attempt would reach again', { code: 'max_turns' }, NOTHING],
    ['an output that does not match, after the model has had its tries', { code: 'invalid_output' }, NOTHING],
    ['a fault, which a person has to correct', { code: 'invalid_request_error' }, NOTHING],
    ['a fault after an effect', { code: 'invalid_request_error' }, EFFECT],
    ['a failure while it is unknown whether a call took effect', OVERLOADED, UNKNOWN],
    ['an agent that allows none', OVERLOADED, [...OPENED, declared({ automatic: [] })]],
  ])('automatic recovery does not happen after %s', (_, error, events) => {
    expect(waitAfter(events, error)).toBeUndefined()
  })

  it('automatic recovery uses only the strategies that the agent names', () => {
    expect(waitAfter([...OPENED, declared({ automatic: ['restart_run'] })], { code: 'invalid_request_error' })).toBeGreaterThan(0)
    expect(waitAfter([...OPENED, declared({ automatic: ['abandon'] })], { code: 'max_turns' })).toBeUndefined()
  })

  it('automatic recovery begins a new series once the model answered, a run ended, or a person stepped in', () => {
    const answered: EventBody = { ...(ASKED[0] as EventOf<'model_completed'>) }
    const inARow = (...then: EventBody[]): number | undefined => stateOf([...tried(3), ...then]).recovered?.inARow
    expect(inARow()).toBe(3)
    expect(inARow(answered)).toBe(0)
    expect(inARow({ type: 'run_interrupted', run: 1 })).toBe(0)
    expect(inARow({ type: 'recovery_started', run: 1, strategy: 'continue_run', by: 'ann' })).toBe(0)
    expect(
      inARow(
        { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'manual' },
        { type: 'run_started', run: 2, messageId: 'n' },
      ),
    ).toBe(0)
  })

  it('automatic recovery continues its series if a restart undoes the model’s answer', () => {
    const [answered] = ASKED
    const again: EventBody = { type: 'run_started', run: 2, messageId: 'm', intent: 1 }
    const state = stateOf([
      ...OPENED,
      byItself('restart_run'),
      { type: 'recovery_ended', run: 1, strategy: 'restart_run' },
      again,
      answered as EventBody,
    ])
    expect(state.recovered?.inARow).toBe(1)
  })

  it('automatic recovery waits until the hourly limit allows it', () => {
    const often = Array.from({ length: 3 }, () => [byItself('continue_run'), ASKED[0] as EventBody]).flat()
    const events = [...OPENED, declared({ perHour: 3 }), ...often]
    // The events happened at time 1.
    expect(waitAfter(events)).toBe(1 + HOUR_MS - NOW)
    expect(waitAfter([...OPENED, declared({ perHour: 4 }), ...often])).toBeLessThan(10_000)
  })

  const WAITS: EventBody = { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'continue_run', nextAttemptAt: 500 }
  const NEWS: EventBody = { type: 'message_received', messageId: 'n', content: 'still there?' }

  it('automatic recovery begins when it is due', () => {
    const state = stateOf([...OPENED, WAITS])
    expect(decide(state, dueAt(499))).toEqual({ do: 'wait' })
    expect(decide(state, dueAt(500))).toEqual({ do: 'recover', strategy: 'continue_run' })
    expect(isRunInProgress(state)).toBe(true)
  })

  it('automatic recovery begins as soon as a message arrives, and its attempt does not count towards maxTurns', () => {
    const state = stateOf([...OPENED, WAITS, NEWS])
    expect(decide(state, dueAt(0))).toEqual({ do: 'recover', strategy: 'continue_run' })
    const recovered = stateOf([
      ...OPENED,
      WAITS,
      NEWS,
      byItself('continue_run'),
      { type: 'recovery_ended', run: 1, strategy: 'continue_run' },
    ])
    recovered.current!.limits = { maxTurns: 1 }
    expect(decide(recovered, dueAt(0))).toEqual({ do: 'start_turn', run: 1, turn: 2, takes: ['n'] })
  })

  it('automatic recovery waits for its time if its attempt cannot take the message, whose deadline has passed', () => {
    const late: EventBody = { type: 'message_received', messageId: 'n', content: 'now!', deadlineMs: 1 }
    expect(decide(stateOf([...OPENED, WAITS, late]), dueAt(499))).toEqual({ do: 'wait' })
  })

  it('automatic recovery does not apply to an error that needs a person: a message then starts a new run', () => {
    const failed: EventBody = { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'manual' }
    const message: EventBody = { type: 'message_received', messageId: 'n', content: 'go on' }
    expect(decide(stateOf([...OPENED, failed, message]), dueAt(0))).toMatchObject({ do: 'start_run', run: 2 })
    const asking: EventBody = { type: 'tool_unknown', ...CALL, attempt: 1, message: 'who knows', ask: true }
    expect(decide(stateOf([...OPENED, ...ASKED, asking, failed, message]), dueAt(0))).toEqual({ do: 'wait' })
  })
})
