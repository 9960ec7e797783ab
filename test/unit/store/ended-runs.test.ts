// What the ledger says about runs that are over: none of their rows claims to be in progress, or to wait for anyone.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EventBody, SessionEvent } from '../../../src/session/events.ts'
import { fold } from '../../../src/session/fold/fold.ts'
import type { CallState, SessionState } from '../../../src/session/state.ts'
import { type PlainRow, type PlainTables, projectedTables } from '../../support/projected.ts'
import { answered, eventsOf, issued, logOf, received, started } from '../../integration/store/sessions.ts'
import { eventfulSessions } from '../session/sound-session.ts'
import { size } from '../../support/sizes.ts'

const OPEN = ['issued', 'running', 'awaiting_approval', 'awaiting_answer', 'asleep']

/** Rows of the session whose whole past is `events`. */
function tablesOf(events: readonly SessionEvent[]): PlainTables {
  return projectedTables(events.map((event) => ({ epoch: 'e', digest: '', json: JSON.stringify(event) })))
}

/** Whether a call is in the inbox, where a person is asked about its unknown outcome. */
const isAsked = ({ status, error }: PlainRow): boolean => status === 'unknown' && (error as { asked?: true } | null)?.asked === true

/** The calls of the run that is in progress, or that has failed and can be recovered. */
function liveCalls({ current }: SessionState): CallState[] {
  return current?.calls ?? []
}

const idsWhere = (calls: readonly CallState[], ...statuses: CallState['status'][]): string[] =>
  calls.filter(({ status }) => statuses.includes(status)).map(({ callId }) => callId)

/** Call ids of rows, in order. */
const idsOf = (rows: readonly PlainRow[]): string[] => rows.map(({ call_id }) => String(call_id)).toSorted()

/** Whether the event that follows at once ends its call. */
const isFollowedAtOnce = ({ type }: SessionEvent): boolean => type === 'approval_decided' || type === 'tool_resolved'

/** The events up to one of them, and those that follow it at once. */
function pastOf(events: readonly SessionEvent[], cut: number): SessionEvent[] {
  let end = 1 + (cut % events.length)
  const newest = () => events.slice(0, end).findLast(({ type }) => type !== 'checkpoint_made')
  for (let last = newest(); end < events.length && last && isFollowedAtOnce(last); last = newest()) end += 1
  return events.slice(0, end)
}

describe('after any event of any session', () => {
  it('the rows that say that something is in progress or waits are exactly those of the live run', () => {
    fc.assert(
      fc.property(eventfulSessions, fc.nat(), ({ events }, cut) => {
        const past = pastOf(events, cut)
        const state = fold(undefined, past) ?? expect.fail()
        const { tool_calls, approvals } = tablesOf(past)
        const live = liveCalls(state)
        const open = tool_calls.filter(({ status }) => OPEN.includes(String(status)))
        expect(idsOf(open)).toEqual(idsWhere(live, 'issued', 'awaiting_approval', 'awaiting_answer', 'asleep').toSorted())
        const asked = idsOf(tool_calls.filter(isAsked))
        expect(asked).toEqual(expect.arrayContaining(idsWhere(live, 'awaiting_resolution')))
        // An effect that may have happened is a person's business, even after its run was stopped.
        const ended = asked.filter((callId) => !live.some((call) => call.callId === callId))
        expect(ended.filter((callId) => !Object.hasOwn(state.unknown, callId))).toEqual([])
        expect(idsOf(approvals.filter(({ status }) => status === 'requested'))).toEqual(idsWhere(live, 'awaiting_approval').toSorted())
        if (!past.some((event) => event.type === 'session_started' && event.after)) {
          const unknown = idsOf(tool_calls.filter(({ status }) => status === 'unknown'))
          // A call that a recovery repeated is still unknown, but nothing waits for it.
          const again = past.flatMap((event) => (event.type === 'recovery_started' ? (event.redo ?? []).map(({ callId }) => callId) : []))
          expect(unknown.filter((callId) => !Object.hasOwn(state.unknown, callId) && !again.includes(callId))).toEqual([])
        }
        for (const row of tool_calls) {
          const isOver = !OPEN.includes(String(row.status))
          expect({ ...row, isOver: row.completed_at !== null && row.outcome_seq !== null }).toEqual({ ...row, isOver })
        }
      }),
      { numRuns: size(100, 300), endOnFailure: true },
    )
  })
})

const WHERE = { run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund' }
const OTHER = { ...WHERE, callId: 't_1_1_1' }
const AT = Date.UTC(2026, 10, 22)
const ASKED = { type: 'approval_requested', digest: 'd', expiresAt: AT, onExpiry: 'deny' } as const
const APPROVED = { type: 'approval_decided', digest: 'd', approved: true } as const

/** A turn with two calls that are issued. */
const BEGUN: EventBody[] = [
  started(),
  received('u1'),
  { type: 'run_started', run: 1, messageId: 'u1' },
  { type: 'turn_started', run: 1, turn: 1, takes: ['u1'] },
  answered(1, 1, [{ order: 7 }, { order: 8 }]),
  issued(1, 1, 0),
  issued(1, 1, 1),
]

const INTERRUPTED: EventBody = { type: 'run_interrupted', run: 1 }

/** The rows of that turn after these events. */
const after = (...bodies: EventBody[]): PlainTables => tablesOf(eventsOf(logOf([...BEGUN, ...bodies])))

describe('a run that is stopped', () => {
  it.each<[string, EventBody]>([
    ['an interrupt', INTERRUPTED],
    ['a rollback', { type: 'rolled_back', toSeq: 2, upToSeq: 9, effects: [] }],
    ['an abandoned run', { type: 'recovery_started', run: 1, strategy: 'abandon' }],
  ])('a run that is stopped by %s abandons its approval requests, and says so on request and call', (_, stop) => {
    const { approvals, tool_calls } = after({ ...ASKED, ...WHERE }, { ...APPROVED, ...WHERE }, { ...ASKED, ...OTHER }, stop)
    expect(approvals).toMatchObject([
      { call_id: WHERE.callId, status: 'approved' },
      { call_id: OTHER.callId, status: 'abandoned', decided_by: null, decided_at: expect.any(Number) },
    ])
    const error = { code: 'abandoned' }
    expect(tool_calls).toMatchObject([
      { call_id: WHERE.callId, status: 'skipped', error, approval: { decision: 'approved' } },
      { call_id: OTHER.callId, status: 'skipped', error, approval: { decision: 'abandoned' }, waiting_until: null },
    ])
  })

  it('a stopped run leaves a call whose outcome is unknown as it is, and a person is still asked about it', () => {
    const unknown: EventBody = { type: 'tool_unknown', ...WHERE, attempt: 1, message: 'who knows', ask: true }
    expect(after(unknown).tool_calls[0]).toMatchObject({ status: 'unknown', error: { asked: true } })
    expect(after(unknown, INTERRUPTED).tool_calls[0]).toMatchObject({ status: 'unknown', error: { code: 'outcome_unknown' }, attempt: 1 })
    expect(after(unknown, INTERRUPTED).tool_calls.filter(isAsked)).toHaveLength(1)
  })

  it('a run that is stopped without its workflow may have executed its issued calls: the external ones are unknown', () => {
    const resumed: EventBody = { type: 'session_resumed', executionId: 'e2', fromEpoch: 'e', coreVersion: 1 }
    const statuses = after(resumed, INTERRUPTED).tool_calls.map(({ effect, status }) => [effect, status])
    expect(statuses).toEqual([
      ['external', 'unknown'],
      ['external', 'unknown'],
    ])
  })

  it('a run that is stopped by an error that ends by itself is not over: what waits keeps waiting', () => {
    const { approvals, tool_calls } = after(
      { ...ASKED, ...WHERE },
      {
        type: 'error_entered',
        run: 1,
        code: 'agent_not_served',
        reason: 'nobody',
        strategy: 'automatic',
      },
    )
    expect(approvals).toMatchObject([{ status: 'requested' }])
    expect(tool_calls).toMatchObject([{ status: 'awaiting_approval' }, { status: 'issued' }])
  })
})

it('a call that is skipped because an equal call is unknown is not itself unknown, and names that call', () => {
  const unknown: EventBody = { type: 'tool_unknown', ...WHERE, attempt: 1, message: 'who knows' }
  const { tool_calls } = after(unknown, { type: 'tool_unknown', ...OTHER, attempt: 0, message: 'still nobody', again: WHERE.callId })
  expect(tool_calls).toMatchObject([
    { call_id: WHERE.callId, status: 'unknown' },
    { call_id: OTHER.callId, status: 'skipped', error: { code: 'outcome_unknown', again: WHERE.callId } },
  ])
})

it('a milestone is listed once, where it was first reached, however often an attempt reaches it', () => {
  const reached = ['packed', 'sent', 'packed', 'sent', 'paid'].map((name): EventBody => ({ type: 'milestone_reached', ...WHERE, name }))
  expect(after(...reached).tool_calls[0]?.milestones).toEqual(['packed', 'sent', 'paid'])
})
