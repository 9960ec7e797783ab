// What people are notified of, and that it names no content.
import { describe, expect, it } from 'vitest'
import type { EventBody } from '../../../src/session/events.ts'
import { eventsBehind, NOTIFICATION_TYPES, notificationOf } from '../../../src/session/notifications.ts'

const AT = Date.parse('2026-11-28T12:00:00Z')
const told = (event: EventBody) => notificationOf({ v: 1, seq: 7, at: AT, ...event })
const call = { run: 1, turn: 2, callId: 't_1_2_0', tool: 'refund' }

describe('a call that waits', () => {
  it('a call that waits for an approval is notified with the digest to approve and the time of its expiry, without its reason', () => {
    const event = { type: 'approval_requested', ...call, digest: 'd', reason: 'a secret', expiresAt: AT, onExpiry: 'deny' } as const
    const facts = { kind: 'approval', ...call, digest: 'd', expiresAt: '2026-11-28T12:00:00.000Z' }
    expect(told(event)).toEqual({ type: 'call.waiting', facts })
  })

  it('a call that waits for a client is told from one whose tool asks the user something', () => {
    expect(told({ type: 'answer_requested', ...call })?.facts).toEqual({ kind: 'answer', ...call })
    const asks = { question: { message: 'a secret' } } as never
    expect(told({ type: 'answer_requested', ...call, asks })?.facts).toEqual({ kind: 'question', ...call })
    expect(told({ type: 'answer_requested', ...call, child: { session: 's/1', agent: 'helper' } })).toBeUndefined()
  })

  it('a call with an unknown outcome is notified only if a person must say what happened', () => {
    const unknown = { type: 'tool_unknown', ...call, attempt: 1, message: 'a secret' } as const
    expect(told(unknown)).toBeUndefined()
    expect(told({ ...unknown, ask: true })).toEqual({ type: 'call.waiting', facts: { kind: 'unknown', ...call } })
  })
})

it('an error is notified with its code and the next attempt, without its reason', () => {
  const error = {
    type: 'error_entered',
    run: 1,
    code: 'overloaded_error',
    reason: 'a secret',
    strategy: 'automatic',
    nextAttemptAt: AT,
  } as const
  const facts = { code: 'overloaded_error', strategy: 'automatic', run: 1, nextAttemptAt: '2026-11-28T12:00:00.000Z' }
  expect(told(error)).toEqual({ type: 'session.error', facts })
})

it('a session’s other events notify nobody', () => {
  expect(told({ type: 'turn_started', run: 1, turn: 1 } as never)).toBeUndefined()
  expect(eventsBehind(NOTIFICATION_TYPES)).toHaveLength(7)
})
