// The columns of a session's row, folded from its events: the part of the session's state that people query.
import { addUsage, NO_USAGE, type Usage } from '../session/content.ts'
import type { SessionEvent, SessionStatus } from '../session/events.ts'
import type { SessionRow } from './store.ts'

/** What an event may change of a session's row. */
export interface SessionColumns {
  status: SessionStatus
  /** Number of the newest run. */
  run: number
  /** The run that is going on, or the one that the session failed in. */
  currentRun: number | null
  turns: number
  error: SessionRow['error']
  usage: Usage
  updatedAt: number
}

/** The columns before any event of the session was applied. */
export function newSessionColumns(): SessionColumns {
  return { status: 'idle', run: 0, currentRun: null, turns: 0, error: null, usage: NO_USAGE, updatedAt: 0 }
}

/** Applies one event, in place. The same meaning as the fold of `src/session/fold.ts`; a property test holds them together. */
export function applyToSession(session: SessionColumns, event: SessionEvent): void {
  session.updatedAt = event.at
  switch (event.type) {
    case 'session_resumed':
      session.status = 'idle'
      session.error = null
      return
    case 'run_started':
      session.status = 'running'
      session.run = event.run
      session.currentRun = event.run
      session.error = null
      return
    case 'turn_started':
      if (session.currentRun !== null) session.turns += 1
      return
    case 'model_completed':
      if (session.currentRun !== null) session.usage = addUsage(session.usage, event.usage)
      return
    case 'run_completed':
    case 'run_interrupted':
      session.status = 'idle'
      session.currentRun = null
      session.error = null
      return
    case 'error_entered':
      session.status = 'error'
      session.error = { code: event.code, reason: event.reason, ...(event.run !== undefined && { run: event.run }) }
      return
    case 'recovery_started':
      if (event.strategy === 'restart_run' || event.strategy === 'abandon') session.currentRun = null
      return
    case 'recovery_ended':
      session.status = session.currentRun === null ? 'idle' : 'running'
      session.error = null
      return
    case 'session_closed':
      session.status = 'closed'
      return
    default:
      return
  }
}
