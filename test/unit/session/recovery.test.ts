// Which recovery a failed run is offered: by what failed, and by what the run has done.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { EventBody, Resolution, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold.ts'
import { chooseRecovery, problemWith } from '../../../src/session/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'

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
  { type: 'session_started', sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'e', coreVersion: 1 },
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
    limits: { maxTurns: 9 },
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

const ALL = ['continue_run', 'restart_from_last_effect', 'restart_run', 'abandon', 'manual']
const WITHOUT_EFFECT = ['continue_run', 'restart_run', 'abandon', 'manual']
const AFTER_UNKNOWN = ['abandon', 'manual']

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
    ['the deadline', { code: 'deadline_exceeded' }, 'an effect', EFFECT, 'continue_run', ALL],
    ['the deadline', { code: 'deadline_exceeded' }, 'unknown', UNKNOWN, 'manual', AFTER_UNKNOWN],
    ['a request that is too long', { code: 'model_context_window_exceeded' }, 'nothing', NOTHING, 'abandon', WITHOUT_EFFECT],
    ['a request that is too long', { code: 'request_too_large' }, 'an effect', EFFECT, 'abandon', ALL],
    ['a fault', { code: 'invalid_request_error' }, 'nothing', NOTHING, 'restart_run', WITHOUT_EFFECT],
    ['a fault', { code: 'invalid_request_error' }, 'an effect', EFFECT, 'restart_from_last_effect', ALL],
    ['a fault', { code: 'invalid_request_error' }, 'unknown', UNKNOWN, 'manual', AFTER_UNKNOWN],
  ])('after %s (%o) of a run that has done %s', (_, error, __, events, strategy, options) => {
    expect(chooseRecovery(stateOf(events), error)).toEqual({ strategy, options })
  })

  it('is no restart for a run that took more messages than can be put back', () => {
    const state = stateOf(NOTHING)
    const run = state.current ?? expect.fail()
    run.tookMore = true
    expect(chooseRecovery(state, { code: 'invalid_request_error' })).toEqual({
      strategy: 'abandon',
      options: ['continue_run', 'abandon', 'manual'],
    })
    expect(problemWith(state, run, 'restart_run')).toMatchObject({ code: 'too_many_messages' })
  })

  it('comes with what the run had done', () => {
    const failed: EventBody = { type: 'error_entered', run: 1, turn: 2, code: 'c', reason: 'r', strategy: 'manual', options: ['manual'] }
    expect(stateOf([...EFFECT, failed]).error).toMatchObject({
      progress: { completed: [{ callId: 't_1_1_0', tool: 'pay', effectId: 'pay_1' }], failed: [], pending: [], unknown: [] },
    })
    expect(stateOf([...UNKNOWN, failed]).error?.progress).toMatchObject({ completed: [], unknown: ['t_1_1_0'] })
    expect(stateOf([...OPENED, ...ASKED, failed]).error?.progress?.pending).toEqual([{ callId: 't_1_1_0', tool: 'pay' }])
  })
})
