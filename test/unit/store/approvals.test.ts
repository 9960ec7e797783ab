// The rows of approval requests, whatever pieces their events arrive in.
import { describe, expect, it } from 'vitest'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { type ApprovalRows, projectApproval } from '../../../src/store/project/approvals.ts'
import type { TurnCall } from '../../../src/session/past/call-status.ts'

const CALL = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' }
const requested = (digest: string): EventBody => ({ type: 'approval_requested', ...CALL, digest, expiresAt: 9_000, onExpiry: 'deny' })
const issued: EventBody = { type: 'tool_issued', ...CALL, index: 0, effect: 'external', input: {}, inputDigest: 'd2' }

function rowsOf(...bodies: EventBody[]): ApprovalRows {
  const rows: ApprovalRows = { requests: [], decisions: [] }
  const open = new Map([[CALL.callId, { tool: 'pay', status: 'awaiting_approval' } as TurnCall]])
  for (const [index, body] of bodies.entries()) projectApproval(rows, { v: 1, seq: index + 1, at: index, ...body } as SessionEvent, open)
  return rows
}

describe('a request that another one replaces because a hook changed the arguments that a person had set', () => {
  it('an approval request is superseded when a hook changes a person’s arguments, and the new one is open', () => {
    const { requests, decisions } = rowsOf(requested('d1'), issued, requested('d2'))
    expect(requests).toMatchObject([
      { digest: 'd1', status: 'superseded', decided_at: '1970-01-01T00:00:00.001Z', decided_by: null },
      { digest: 'd2', status: 'requested', decided_at: null },
    ])
    expect(decisions).toEqual([])
  })

  it('an approval request is superseded when a hook changes a person’s arguments, even if it is already stored', () => {
    const { requests, decisions } = rowsOf(issued, requested('d2'))
    expect(decisions).toMatchObject([{ call_id: CALL.callId, status: 'superseded' }])
    expect(requests).toMatchObject([{ digest: 'd2', status: 'requested' }])
  })
})
