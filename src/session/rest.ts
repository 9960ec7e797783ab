// Whether a run rests. A resting run has no step in progress, and none begins until a person intervenes or the error that it failed with
// ends.
import { decide, NOTHING_DUE } from './decide.ts'
import type { SessionState } from './state.ts'

/**
 * Whether the session's run rests: because of an error, a pause, or a decision that a person must make. A client's answer is usually a step
 * of a program, which takes no longer than a tool, so a run that waits only for clients does not rest. During a pause, a model call may
 * still be in progress.
 */
export function rests(state: SessionState): boolean {
  const { current: run, status, paused } = state
  if (!run) return false
  if (status === 'error') return true
  if (status !== 'waiting' && !paused) return false
  if (paused && (run.phase === 'model' || run.calls.some((call) => call.status === 'issued'))) return false
  if (paused) return true
  const asksPerson = run.calls.some((call) => call.status === 'awaiting_approval' || call.status === 'awaiting_resolution')
  // An alarm ends a rest with an event of its own.
  return asksPerson && decide(state, NOTHING_DUE).do === 'wait'
}
