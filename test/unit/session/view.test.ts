// What `session.state()` shows of a session.
import { expect, it } from 'vitest'
import { snapshotOf } from '../../../src/session/fold/snapshot.ts'
import type { SessionState } from '../../../src/session/state.ts'
import { viewOf } from '../../../src/session/watching/view.ts'
import { metInSessions } from './sound-session.ts'

/** The state with arguments that are too large to be kept for every call. */
function withLargeCalls(state: SessionState): SessionState {
  const { current } = state
  return { ...state, current: current && { ...current, calls: current.calls.map((call) => ({ ...call, input: 'x'.repeat(60_000) })) } }
}

const named = (state: SessionState) =>
  (viewOf(state).current?.calls ?? []).map(({ callId, tool, status }) => `${callId} ${tool} ${status}`).toSorted()

it('the view of a session names every call of the newest answer, even those that a bounded state leaves out', () => {
  const met = metInSessions(({ state }) => {
    if (!state.current?.calls.length) return 0
    const large = withLargeCalls(state)
    const bounded = snapshotOf(large)
    expect(named(bounded)).toEqual(named(large))
    return bounded.current?.leftOut?.length ?? 0
  })
  expect(met).toBeGreaterThan(0)
})

it('the view of a session is plain JSON, and is the same for a state read from JSON', () => {
  metInSessions(({ state }) => {
    const view = viewOf(JSON.parse(JSON.stringify(state)) as SessionState)
    expect(view).toEqual(viewOf(state))
    expect(JSON.parse(JSON.stringify(view))).toEqual(view)
    return 1
  })
})
