// The turns of a run: how many it has begun, how many of them count, and whether a failed model call is repeated in a new turn.
import type { RunState, SessionState } from './state.ts'

/** How many turns the run has begun. */
export function turnsOf({ turn, lastTurn = turn }: RunState): number {
  return lastTurn
}

/** How many of the run's turns count towards `maxTurns`. */
export function modelCallsOf(run: RunState): number {
  return turnsOf(run) - (run.unanswered ?? 0)
}

/** Whether a run whose model call failed continues with another turn, which accepts the messages that have arrived. */
export function joinsModelCall({ inbox }: SessionState, { phase }: RunState): boolean {
  return phase === 'model' && inbox.length > 0
}
