// The fold's bounds and its tolerance; what holds for all sessions is in sound-session.test.ts.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { shortHash } from '../../../src/session/digest.ts'
import type { Effect } from '../../../src/session/call-facts.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const STARTED: EventBody = sessionStarted({ context: { t: 1 }, tags: ['x'], executionId: 'e1' })

function folded(...bodies: EventBody[]): SessionState {
  const state = fold(
    undefined,
    [STARTED, ...bodies].map((body, index) => ({ v: 1, seq: index + 1, at: 10 * (index + 1), ...body }) as SessionEvent),
  )
  if (!state) throw new Error('nothing was folded')
  return state
}

/** A run whose model requests one call, followed by the events `ends`. */
function oneCall(effect: Effect, ...ends: EventBody[]): SessionState {
  const resolution = {
    index: 0,
    tool: 't',
    effect,
    key: 'k',
    inputDigest: 'd',
    schemaDigest: 's',
    timeoutMs: 1,
    retry: { maxRetries: 0, baseDelayMs: 0 },
    verify: true,
  }
  return folded(
    { type: 'message_received', messageId: 'm1', content: 'hi', metadata: { a: 1 } },
    { type: 'run_started', run: 1, messageId: 'm1' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m1'] },
    {
      type: 'model_completed',
      run: 1,
      turn: 1,
      attempt: 1,
      model: 'm',
      stopReason: 'tool_use',
      usage: {
        ...NO_USAGE,
        input_tokens: 7,
      },
      content: [
        {
          type: 'tool_use',
          id: 'x',
          name: 't',
          input: { b: 2 },
        },
      ],
      calls: [resolution],
    },
    ...ends,
  )
}

const CALL = { run: 1, turn: 1, callId: 't_1_1_0', tool: 't' }

describe('the fold', () => {
  it('the fold has no state before the first event', () => {
    expect(fold(undefined, [])).toBeUndefined()
    expect(fold(undefined, [{ v: 1, seq: 5, at: 1, type: 'run_interrupted', run: 1 }])).toBeUndefined()
  })

  it('the fold knows the session’s agent, context and tags, its newest event, and when it was created and updated', () => {
    expect(folded({ type: 'message_rejected', code: 'c', reason: 'r' })).toMatchObject({
      agent: 'a',
      context: { t: 1 },
      tags: ['x'],
      epoch: 'e1',
      status: 'idle',
      seq: 2,
      createdAt: 10,
      updatedAt: 20,
      inbox: [],
    })
  })

  it('the fold keeps the raw arguments of a call until the call has ended', () => {
    expect(oneCall('read').current?.calls).toMatchObject([{ callId: 't_1_1_0', input: { b: 2 }, status: 'requested' }])
    const ended = oneCall('read', { type: 'tool_completed', ...CALL, attempt: 1, value: 1 })
    expect(ended.current?.calls[0]).not.toHaveProperty('input')
    expect(ended.current?.phase).toBe('turn_due')
    expect(ended.usage.input_tokens).toBe(7)
  })

  it.each<[string, Effect, EventBody, string[]]>([
    ['an idempotent call that completed', 'idempotent', { type: 'tool_completed', ...CALL, attempt: 1 }, ['t_1_1_0']],
    ['an external call that completed', 'external', { type: 'tool_completed', ...CALL, attempt: 1 }, ['t_1_1_0']],
    ['a read', 'read', { type: 'tool_completed', ...CALL, attempt: 1 }, []],
    ['a replay', 'external', { type: 'tool_completed', ...CALL, attempt: 0, replayOf: 't_0_1_0' }, []],
    ['an unknown call', 'external', { type: 'tool_unknown', ...CALL, attempt: 1, message: 'm' }, []],
    ['an unknown call that was not run', 'external', { type: 'tool_unknown', ...CALL, attempt: 0, message: 'm', again: 't_0_1_0' }, []],
    [
      'an external call that failed, for then it did not happen',
      'external',
      { type: 'tool_failed', ...CALL, attempt: 1, code: 'c', message: 'm' },
      [],
    ],
    [
      'an idempotent call that failed, which would have the same key again',
      'idempotent',
      { type: 'tool_failed', ...CALL, attempt: 1, code: 'c', message: 'm' },
      [],
    ],
    [
      'an idempotent call with arguments that do not fit',
      'idempotent',
      { type: 'tool_failed', ...CALL, attempt: 0, code: 'invalid_arguments', message: 'm' },
      [],
    ],
  ])('the fold counts a call among the effects of the run, or not: %s', (_, effect, end, effects) => {
    const { current } = oneCall(effect, end)
    expect(current?.effects.map(({ callId }) => callId)).toEqual(effects)
    expect(current?.lastEffect).toEqual(effects.length > 0 ? { turn: 1, seq: expect.any(Number) } : undefined)
  })

  it('the fold keeps the data that verify needs about an unknown call until the call is resolved', () => {
    const unknown: EventBody = { type: 'tool_unknown', ...CALL, attempt: 2, message: 'm' }
    expect(oneCall('external', unknown).unknown).toMatchObject({
      t_1_1_0: { run: 1, turn: 1, attempt: 2, input: { b: 2 }, resolution: { tool: 't' } },
    })
    const happened = oneCall('external', unknown, { type: 'tool_resolved', ...CALL, by: 'verify', happened: true })
    expect(happened).toMatchObject({ unknown: {}, keys: { [shortHash('k')]: 't_1_1_0' }, current: { effects: [{ callId: 't_1_1_0' }] } })
    const not = oneCall('external', unknown, { type: 'tool_resolved', ...CALL, by: 'verify', happened: false })
    expect(not).toMatchObject({ unknown: {}, keys: {}, current: { effects: [] } })
  })

  it('the fold returns the messages of a restarted run to the inbox, with everything that came with them', () => {
    const failed: EventBody = { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'restart_run' }
    const waiting: EventBody = { type: 'message_received', messageId: 'm2', content: 'and' }
    const restarted = oneCall('read', waiting, failed, { type: 'recovery_started', run: 1, strategy: 'restart_run' })
    expect(restarted).toMatchObject({
      status: 'error',
      current: null,
      run: 1,
      inbox: [{ messageId: 'm1' }, { messageId: 'm2' }],
    })
  })

  it('the fold forgets an error when the run continues or ends, or when the session is resumed', () => {
    const error: EventBody = { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'automatic' }
    expect(oneCall('read', error)).toMatchObject({ status: 'error', error: { code: 'c', run: 1, strategy: 'automatic' } })
    expect(oneCall('read', error, { type: 'recovery_ended', run: 1, strategy: 'automatic' })).toMatchObject({
      status: 'running',
      error: null,
    })
    expect(oneCall('read', error, { type: 'run_interrupted', run: 1 })).toMatchObject({ status: 'idle', error: null, current: null })
    const resumed: EventBody = { type: 'session_resumed', executionId: 'e2', fromEpoch: 'e1', coreVersion: 1 }
    expect(oneCall('read', error, { type: 'session_closed', reason: 'idle' }, resumed)).toMatchObject({
      status: 'running',
      error: null,
      epoch: 'e2',
    })
  })

  it('the fold keeps the newest 2,000 message ids, as hashes', () => {
    const state = folded(
      ...Array.from({ length: 2_001 }, (_, n): EventBody => ({ type: 'message_received', messageId: `m${n}`, content: 'x' })),
    )
    expect(state.accepted).toHaveLength(2_000)
    expect(state.accepted).not.toContain(shortHash('m0'))
    expect(state.accepted).toContain(shortHash('m1'))
    expect(state.inbox).toHaveLength(2_001)
  })

  it('the fold keeps the newest 100 keys of effects that completed', () => {
    let state: SessionState | undefined = oneCall('idempotent')
    for (let n = 0; n < 101; n++) {
      const call = state?.current?.calls[0]
      if (call) Object.assign(call, { status: 'issued', resolution: { ...call.resolution, key: `k${n}` } })
      state = fold(state, [{ v: 1, seq: 10 + n, at: 1, type: 'tool_completed', ...CALL, attempt: 1 }])
    }
    expect(Object.keys(state?.keys ?? {})).toHaveLength(100)
    expect(state?.keys).not.toHaveProperty(shortHash('k0'))
    expect(state?.keys).toHaveProperty(shortHash('k1'))
  })

  it('the fold ignores events that do not match the state', () => {
    const strange: EventBody[] = [
      { type: 'turn_started', run: 9, turn: 9, takes: ['nobody'] },
      { type: 'tool_completed', run: 9, turn: 9, callId: 't_9_9_9', tool: 't', attempt: 1 },
      { type: 'tool_resolved', run: 9, turn: 9, callId: 't_9_9_9', tool: 't', by: 'verify', happened: true },
      { type: 'recovery_started', strategy: 'restart_run' },
      { type: 'run_completed', run: 9, turns: 1, stopReason: 'end_turn', usage: NO_USAGE },
    ]
    expect(folded(...strange)).toMatchObject({ status: 'idle', current: null, seq: 6, run: 0, keys: {} })
  })
})

it.each<EventBody>([
  { type: 'message_received', messageId: 'm', content: 'hi' },
  { type: 'message_rejected', code: 'c', reason: 'r' },
  { type: 'checkpoint_made', version: 1, reasons: ['r'] },
  { type: 'session_paused' },
])('a session that was about to close is open again after $type', (event) => {
  const closed: EventBody = { type: 'session_closed', reason: 'idle' }
  const error: EventBody = { type: 'error_entered', code: 'c', reason: 'r', strategy: 'manual' }
  expect(folded(closed).status).toBe('closed')
  expect(folded(closed, event).status).toBe('idle')
  expect(folded(error, closed, event).status).toBe('error')
  expect(folded(closed, event, closed).status).toBe('closed')
})
