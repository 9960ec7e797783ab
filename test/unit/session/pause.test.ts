// Pausing: what a paused session does not do, what it accepts meanwhile, and what remains after a pause.
import { describe, expect, it } from 'vitest'
import { NO_USAGE } from '../../../src/session/content.ts'
import { deadlinesOf } from '../../../src/session/deadlines.ts'
import { decide, dueAt } from '../../../src/session/decide.ts'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import type { Resolution } from '../../../src/session/call-facts.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import { isHeldUp, ranMs } from '../../../src/session/pause.ts'
import { DEFAULT_RECOVERY } from '../../../src/session/recovery/recovery.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { sessionStarted } from '../../support/session-started.ts'

const STARTED: EventBody = sessionStarted()
const RECEIVED: EventBody = { type: 'message_received', messageId: 'm', content: 'go' }
const RUN: EventBody[] = [
  STARTED,
  RECEIVED,
  { type: 'run_started', run: 1, messageId: 'm' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['m'] },
]
const PAUSED: EventBody = { type: 'session_paused', by: 'ann', reason: 'too fast' }
const UNPAUSED: EventBody = { type: 'session_unpaused', by: 'ann' }

const READ: Resolution = {
  index: 0,
  tool: 'look',
  effect: 'read',
  inputDigest: 'd',
  schemaDigest: 's',
  timeoutMs: 1,
  retry: { maxRetries: 0, baseDelayMs: 0 },
  verify: false,
}
const CALL: Resolution = { ...READ, tool: 'pay', effect: 'external', key: 'k', approval: { expiresMs: 1_000_000, onExpiry: 'deny' } }

function answered(calls: Resolution[] = []): EventBody {
  const content = calls.map(({ tool }) => ({ type: 'tool_use' as const, id: 'x', name: tool, input: {} }))
  const stopReason = calls.length > 0 ? ('tool_use' as const) : ('end_turn' as const)
  return { type: 'model_completed', run: 1, turn: 1, attempt: 1, model: 'm', content, stopReason, usage: NO_USAGE, calls }
}

/** The state after these events, one every 10 ms. */
function after(...bodies: EventBody[]): SessionState {
  const events = bodies.map((body, index) => ({ v: 1, seq: index + 1, at: 10 * (index + 1), ...body }) as SessionEvent)
  return fold(undefined, events) ?? expect.fail('no session')
}

const NEVER = dueAt(0)
const step = (...bodies: EventBody[]) => decide(after(...bodies), NEVER).do

describe('a paused session', () => {
  it.each<[string, EventBody[], string]>([
    ['starts no run', [STARTED, RECEIVED], 'start_run'],
    ['starts no turn', RUN.slice(0, 3), 'start_turn'],
    ['makes no model call', RUN, 'call_model'],
    ['runs no calls', [...RUN, answered([READ])], 'run_calls'],
    ['requests no approval', [...RUN, answered([CALL])], 'ask'],
    ['completes no run', [...RUN, answered()], 'complete_run'],
  ])('a paused session %s, but does so once it is unpaused', (_, events, next) => {
    expect(step(...events)).toBe(next)
    expect(step(...events, PAUSED)).toBe('wait')
    expect(isHeldUp(after(...events, PAUSED), NEVER)).toBe(true)
    expect(step(...events, PAUSED, UNPAUSED)).toBe(next)
  })

  it('a paused session says since when, by whom and why it is paused, and keeps its status', () => {
    const state = after(...RUN, PAUSED)
    expect(state).toMatchObject({ status: 'running', paused: { at: 50, by: 'ann', reason: 'too fast' } })
    expect(after(...RUN, PAUSED, UNPAUSED)).not.toHaveProperty('paused')
  })

  it('a paused session does not execute calls that are approved during the pause', () => {
    const place = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
    const issued: EventBody = { type: 'tool_issued', ...place, index: 0, effect: 'external', key: 'k', input: {}, inputDigest: 'd' }
    const asked: EventBody = { type: 'approval_requested', ...place, digest: 'd', expiresAt: 1_000_000, onExpiry: 'deny' }
    const approved: EventBody = { type: 'approval_decided', ...place, digest: 'd', approved: true }
    const decided = [...RUN, answered([CALL]), issued, asked, PAUSED, approved]
    expect(step(...decided)).toBe('wait')
    expect(step(...decided, UNPAUSED)).toBe('run_calls')
  })

  it('a paused session has nothing to continue with if it was idle', () => {
    expect(isHeldUp(after(STARTED, PAUSED), NEVER)).toBe(false)
    expect(isHeldUp(after(STARTED, RECEIVED), NEVER)).toBe(false)
  })

  it('a paused session stays paused when it goes back or is resumed, but a fork of it is not paused', () => {
    const resumed: EventBody = { type: 'session_resumed', executionId: 'f', fromEpoch: 'e', coreVersion: 1 }
    const back: EventBody = { type: 'rolled_back', toSeq: 1, upToSeq: 5, effects: [] }
    expect(after(...RUN, PAUSED, resumed).paused).toBeDefined()
    expect(after(...RUN, PAUSED, back)).toMatchObject({ status: 'idle', current: null, paused: { by: 'ann' } })
    const from = { sessionId: 's', seq: 5 }
    const forked: EventBody = { type: 'forked', sessionId: 'f', executionId: 'f', coreVersion: 1, from, keys: 'carried' }
    expect(after(...RUN, PAUSED, forked)).not.toHaveProperty('paused')
  })

  it.each<[string, EventBody[], string]>([
    ['idle', [STARTED], 'idle'],
    ['in error', [...RUN, { type: 'error_entered', run: 1, code: 'c', reason: 'r', strategy: 'manual' }], 'error'],
  ])('a paused session that was about to close reopens: %s', (_, events, status) => {
    expect(after(...events, { type: 'session_closed', reason: 'idle' }, PAUSED).status).toBe(status)
  })
})

describe("a run's deadline", () => {
  const declared: EventBody = {
    type: 'agent_declared',
    digest: 'd',
    limits: { maxTurns: 9, deadlineMs: 100 },
    checkpoint: 'turn',
    recovery: DEFAULT_RECOVERY,
  }
  // The run begins at 30, the first pause at 70.
  const limited = [...RUN, declared, answered([CALL])]
  const runOf = (state: SessionState) => state.current ?? expect.fail('no run')

  it("a run's deadline is postponed by the time for which the session was paused", () => {
    const before = after(...limited)
    expect(deadlinesOf(before, runOf(before))).toMatchObject([{ at: 130 }])
    const later = after(...limited, PAUSED, RECEIVED, UNPAUSED, PAUSED, UNPAUSED)
    expect(runOf(later).pausedMs).toBe(30)
    expect(deadlinesOf(later, runOf(later))).toMatchObject([{ at: 160 }])
  })

  it("a run's deadline does not come closer during a pause", () => {
    const state = after(...limited, PAUSED)
    expect([ranMs(state, runOf(state), 80), ranMs(state, runOf(state), 5_000)]).toEqual([40, 40])
    const later = after(...limited, PAUSED, RECEIVED, UNPAUSED)
    expect(ranMs(later, runOf(later), 100)).toBe(50)
  })

  it("a run's deadline counts only the pauses during its own run", () => {
    const state = after(STARTED, PAUSED, UNPAUSED, RECEIVED, { type: 'run_started', run: 1, messageId: 'm' })
    expect(state.current).not.toHaveProperty('pausedMs')
  })
})
