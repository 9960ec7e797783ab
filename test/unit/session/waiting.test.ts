// Calls that wait for a person or a client: what is asked, what continues meanwhile, when the session waits, and what remains of it.
import { describe, expect, it } from 'vitest'
import { decide, dueAt } from '../../../src/session/decide.ts'
import type { Effect, Resolution } from '../../../src/session/call-facts.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { RunLimits } from '../../../src/session/agent-facts.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { DEFAULT_RECOVERY } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { addToTranscript } from '../../../src/session/transcript/adding.ts'
import { emptyTranscript } from '../../../src/session/transcript/transcript.ts'
import { sessionStarted } from '../../support/session-started.ts'

const AT = 1_000
const APPROVAL = { expiresMs: 500, onExpiry: 'deny' } as const

function resolution(index: number, effect: Effect, more: Partial<Resolution> = {}): Resolution {
  return {
    index,
    tool: `tool${index}`,
    effect,
    inputDigest: `digest${index}`,
    ...(effect !== 'read' && { key: `key${index}` }),
    schemaDigest: 's',
    timeoutMs: 1,
    retry: { maxRetries: 0, baseDelayMs: 0 },
    verify: false,
    ...more,
  }
}

/** The events of a session whose first turn requests these calls, followed by the events `then`. */
function events(calls: Resolution[], then: EventBody[] = [], limits: RunLimits = { maxTurns: 9 }): SessionEvent[] {
  const use = { type: 'tool_use', id: 'x', name: 'tool', input: {} } as const
  const bodies: EventBody[] = [
    sessionStarted({ coreVersion: 2 }),
    { type: 'message_received', messageId: 'm', content: 'go' },
    { type: 'run_started', run: 1, messageId: 'm' },
    { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
    { type: 'agent_declared', digest: 'd', limits, checkpoint: 'turn', recovery: DEFAULT_RECOVERY },
    {
      type: 'model_completed',
      run: 1,
      turn: 1,
      attempt: 1,
      model: 'm',
      content: calls.map(() => use),
      stopReason: 'tool_use',
      usage: NO_USAGE,
      calls,
    },
    ...then,
  ]
  return bodies.map((body, index) => ({ v: 1, seq: index + 1, at: AT, ...body }) as SessionEvent)
}

const stateOf = (calls: Resolution[], then: EventBody[] = [], limits?: { maxTurns: number; deadlineMs: number }): SessionState =>
  fold(undefined, events(calls, then, limits)) as SessionState

const place = (index: number) => ({ run: 1, turn: 1, callId: `t_1_1_${index}`, tool: `tool${index}` })
const issued = (index: number, effect: Effect): EventBody => ({
  type: 'tool_issued',
  ...place(index),
  index,
  effect,
  input: {},
  inputDigest: `digest${index}`,
  ...(effect !== 'read' && { key: `key${index}` }),
})
const asked = (index: number, expiresAt = AT + 500): EventBody => ({
  type: 'approval_requested',
  ...place(index),
  digest: `digest${index}`,
  expiresAt,
  onExpiry: 'deny',
})
const approved = (index: number, more: object = {}): EventBody => ({
  type: 'approval_decided',
  ...place(index),
  digest: `digest${index}`,
  approved: true,
  ...more,
})
const completed = (index: number): EventBody => ({ type: 'tool_completed', ...place(index), attempt: 1, value: `result ${index}` })
const unknown = (index: number): EventBody => ({ type: 'tool_unknown', ...place(index), attempt: 1, message: 'unknown', ask: true })

const next = (state: SessionState, now = AT): unknown => {
  const decision = decide(state, dueAt(now))
  return decision.do === 'run_calls' ? decision.calls.map(({ index }) => index) : decision
}

describe('a person or a client is asked', () => {
  it('all requests of a turn to people and clients are made at once, before any call runs', () => {
    const state = stateOf([
      resolution(0, 'read'),
      resolution(1, 'external', { approval: APPROVAL }),
      resolution(2, 'read', { client: {} }),
      resolution(3, 'external', { approval: APPROVAL, invalid: { code: 'invalid_arguments', message: 'no' } }),
      resolution(4, 'external', { approval: APPROVAL, client: {} }),
      resolution(5, 'external', { approval: APPROVAL, replayOf: 't_0_1_0' }),
    ])
    expect(decide(state, dueAt(AT))).toMatchObject({
      do: 'ask',
      calls: [
        { call: { index: 1 }, for: 'approval' },
        { call: { index: 2 }, for: 'answer' },
        { call: { index: 4 }, for: 'approval' },
      ],
    })
  })

  it('an answer is requested once the call is approved', () => {
    const state = stateOf([resolution(0, 'external', { approval: APPROVAL, client: {} })], [issued(0, 'external'), asked(0), approved(0)])
    expect(decide(state, dueAt(AT))).toMatchObject({ do: 'ask', calls: [{ for: 'answer' }] })
  })
})

describe('while a person or a client is asked', () => {
  const calls = [
    resolution(0, 'external', { approval: APPROVAL }),
    resolution(1, 'read'),
    resolution(2, 'idempotent'),
    resolution(3, 'read', { approval: APPROVAL }),
  ]
  const both = [issued(0, 'external'), asked(0), issued(3, 'read'), asked(3)]

  it('while a person or a client is asked, reads continue, but effects after the waiting call do not', () => {
    expect(next(stateOf(calls, both))).toEqual([1])
    const looked = [...both, issued(1, 'read'), completed(1)]
    expect(next(stateOf(calls, looked))).toEqual({ do: 'wait' })
    expect(next(stateOf(calls, [...looked, approved(3)]))).toEqual([3])
    expect(next(stateOf(calls, [...looked, approved(0)]))).toEqual([0])
  })

  it('while a client tool waits for its answer, later effects continue', () => {
    const state = stateOf(
      [resolution(0, 'external', { client: {} }), resolution(1, 'external')],
      [issued(0, 'external'), { type: 'answer_requested', ...place(0) }],
    )
    expect(next(state)).toEqual([1])
  })

  it('the session waits only if nothing can run: an approved call after a waiting one cannot', () => {
    const two = [resolution(0, 'external', { approval: APPROVAL }), resolution(1, 'external', { approval: APPROVAL })]
    const waiting = [issued(0, 'external'), asked(0), issued(1, 'external'), asked(1)]
    expect(stateOf(two, waiting).status).toBe('waiting')
    expect(stateOf(two, [...waiting, approved(1)]).status).toBe('waiting')
    expect(stateOf(two, [...waiting, approved(0)]).status).toBe('running')
    expect(stateOf(calls, [...both, issued(1, 'read')]).status).toBe('running')
    expect(stateOf(calls, [...both, issued(1, 'read'), completed(1)]).status).toBe('waiting')
  })

  it('each request expires when it is due, and the deadline of the run keeps counting', () => {
    const state = stateOf([calls[0]!], [issued(0, 'external'), asked(0)])
    expect(next(state, AT + 499)).toEqual({ do: 'wait' })
    expect(next(state, AT + 500)).toMatchObject({ do: 'expire', call: { callId: 't_1_1_0' } })
    const short = stateOf([calls[0]!], [issued(0, 'external'), asked(0)], { maxTurns: 9, deadlineMs: 200 })
    expect(next(short, AT)).toEqual({ do: 'wait' })
    expect(next(short, AT + 200)).toMatchObject({ do: 'fail_run', code: 'deadline_exceeded' })
  })
})

describe('a run that fails while a person or a client is asked', () => {
  it('a run that fails while a person or a client is asked leaves its calls as they are for its recovery', () => {
    const state = stateOf(
      [resolution(0, 'external'), resolution(1, 'external', { approval: APPROVAL }), resolution(2, 'read', { client: {} })],
      [
        issued(1, 'external'),
        asked(1),
        issued(2, 'read'),
        { type: 'answer_requested', ...place(2) },
        issued(0, 'external'),
        unknown(0),
        { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'abandon' },
      ],
    )
    expect(state.current?.calls.map(({ status }) => status)).toEqual(['awaiting_resolution', 'awaiting_approval', 'awaiting_answer'])
    expect(Object.keys(state.unknown)).toEqual(['t_1_1_0'])
    expect(decide(state, dueAt(AT))).toEqual({ do: 'wait' })
  })

  it('requests stay open through an error that the session leaves by itself', () => {
    const state = stateOf(
      [resolution(0, 'external', { approval: APPROVAL })],
      [
        issued(0, 'external'),
        asked(0),
        { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'automatic' },
        { type: 'recovery_ended', run: 1, strategy: 'automatic' },
      ],
    )
    expect(state).toMatchObject({ status: 'waiting', current: { calls: [{ status: 'awaiting_approval' }] } })
  })
})

describe('a call with an unknown outcome', () => {
  const calls = [resolution(0, 'external')]
  const lost = [issued(0, 'external'), unknown(0)]
  const resolved = (more: object): EventBody => ({ type: 'tool_resolved', ...place(0), by: 'person', happened: false, ...more })

  it('a call with an unknown outcome waits for a person, and is executed again if that person says so', () => {
    expect(stateOf(calls, lost)).toMatchObject({ status: 'waiting' })
    for (const said of [{}, { decision: 'retry' }]) {
      const state = stateOf(calls, [...lost, resolved(said)])
      expect(next(state)).toEqual([0])
      expect(state).toMatchObject({ status: 'running', unknown: {}, current: { calls: [{ attempts: 1 }] } })
    }
  })

  it('a call with an unknown outcome that a person skips stays unknown, and the turn continues', () => {
    const failed: EventBody = { type: 'tool_failed', ...place(0), attempt: 1, code: 'skipped', message: 'left' }
    const state = stateOf(calls, [...lost, resolved({ decision: 'skip' }), failed])
    expect(Object.keys(state.unknown)).toEqual(['t_1_1_0'])
    expect(decide(state, dueAt(AT))).toMatchObject({ do: 'start_turn', turn: 2 })
  })

  it('a call with an unknown outcome is unknown to the model if its run is interrupted before a person decides', () => {
    const transcript = emptyTranscript()
    const stopped: EventBody[] = [...lost, { type: 'run_interrupted', run: 1 }]
    for (const event of events([...calls, resolution(1, 'external')], stopped)) addToTranscript(transcript, event)
    expect(transcript.messages.at(-1)?.content).toMatchObject([
      { tool_use_id: 't_1_1_0', is_error: true, content: expect.stringContaining('may or may not have taken effect') },
      { tool_use_id: 't_1_1_1', is_error: true, content: expect.stringContaining('was not run') },
    ])
  })
})

describe('a call that is approved with other arguments', () => {
  it('a call that is approved with other arguments completes the key of those arguments, not that of the model’s', () => {
    const changed = approved(0, { input: { less: true }, resolution: resolution(0, 'external', { key: 'other', inputDigest: 'other' }) })
    const then = [issued(0, 'external'), asked(0), changed, completed(0)]
    const transcript = emptyTranscript()
    for (const event of events([resolution(0, 'external', { approval: APPROVAL })], then)) addToTranscript(transcript, event)
    expect([...transcript.keys]).toEqual([['other', 't_1_1_0']])
  })
})
