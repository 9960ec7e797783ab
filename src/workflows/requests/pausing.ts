// The updates `pause` and `unpause`.
import type { PauseAnswer, PauseRequest, UnpauseAnswer } from '../../session/protocol/protocol.ts'
import { type Session, stopDetails } from '../session-parts.ts'

/** Pauses the session. Does nothing if it is already paused. */
export function pause({ journal, alarms, flushing }: Session, request: PauseRequest): PauseAnswer {
  const before = journal.state.paused
  if (before) return { paused: { ...before }, already: true }
  journal.append({ type: 'session_paused', ...stopDetails(request) })
  // Freezes the run's deadline, even while a step is in progress.
  alarms.follow()
  flushing.nudge()
  const { at } = journal.state.paused ?? { at: journal.state.updatedAt }
  return { paused: { at, ...stopDetails(request) }, already: false }
}

/** Lets a paused session continue. */
export function unpause({ journal, alarms, flushing }: Session, request: PauseRequest): UnpauseAnswer {
  if (!journal.state.paused) return { already: true }
  journal.append({ type: 'session_unpaused', ...stopDetails(request) })
  alarms.follow()
  flushing.nudge()
  return { already: false }
}
