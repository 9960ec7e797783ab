// The state that pawl folds from a session's events, for what `session.state()` does not show.
import type { SessionHandle } from 'pawl/client'
import { fold } from '../../src/session/fold/fold.ts'
import type { SessionState } from '../../src/session/state.ts'
import { eventsOf } from './events.ts'

/** The folded state of a session, from its events. */
export async function foldedState(session: SessionHandle): Promise<SessionState> {
  const state = fold(undefined, await eventsOf(session))
  if (!state) throw new Error(`Session ${session.id} has no events.`)
  return state
}
