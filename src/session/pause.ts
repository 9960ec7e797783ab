// Pausing. A paused session keeps its status and takes no step.
import { countsFrom } from './deadlines.ts'
import { decide, type Due } from './decide.ts'
import { defined } from './defined.ts'
import type { EventOf, SessionStatus } from './events.ts'
import type { RunState, SessionState } from './state.ts'

/** Folds `session_paused`. */
export function pause(state: SessionState, { at, by, reason, code, raise }: EventOf<'session_paused'>): void {
  state.paused = { at, ...defined({ by, reason, code, raise }) }
}

/** Folds `session_unpaused`. */
export function unpause(state: SessionState, { at }: EventOf<'session_unpaused'>): void {
  const { paused, current } = state
  delete state.paused
  // A person may have recovered the run during the pause.
  if (paused && current) current.pausedMs = (current.pausedMs ?? 0) + Math.max(0, at - Math.max(paused.at, current.since ?? 0))
}

/** Before each event: a session is closed only while its newest event closes it. It stays open if something arrives meanwhile. */
export function stayOpen(session: { status: SessionStatus; error: object | null }): void {
  if (session.status === 'closed') session.status = session.error ? 'error' : 'idle'
}

/** How many milliseconds the run has been in progress, not counting pauses. */
export function ranMs({ paused }: SessionState, run: RunState, now: number): number {
  return Math.max(0, (paused?.at ?? now) - countsFrom(run))
}

/** Whether the session has a step to take once it is unpaused. */
export function isHeldUp(state: SessionState, due: Due): boolean {
  const { paused, ...unpaused } = state
  return paused !== undefined && decide(unpaused, due).do !== 'wait'
}
