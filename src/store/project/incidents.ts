// Incidents: from the first error of a run to its outcome. The rows of `errors` record when a session left each error, who ended it,
// and its outcome, so that an error that pawl or a person healed can be told from one that is open or was given up.
import type { SessionEvent } from '../../session/events.ts'
import type { Ending, SessionRow } from '../rows.ts'

/**
 * Who ended an error: the end of its cause, or pawl by the agent's policy (`itself`); or a person, who recovered the run, wrote to it or
 * stopped it.
 */
export type EndedBy = 'itself' | 'person'

/**
 * What followed an error. `failed`: the incident continued with another error. The others end the incident. `completed`: a run completed,
 * or nothing was left to do. `rolled_back`: the session went back, and may answer the run's messages again. The others give up the run.
 */
export type IncidentOutcome = 'completed' | 'failed' | 'interrupted' | 'rolled_back' | 'abandoned' | 'closed'

/** The columns of `errors` that are filled in later. */
export interface ErrorEnd {
  ended_at: string | null
  ended_by: EndedBy | null
  outcome: IncidentOutcome | null
}

/** An incident that has not ended. */
export interface Incident {
  /** `seq` of its first error. */
  seq: number
  /** Code of its newest error. */
  code: string
  /** Whether a person has ended one of its errors. */
  byPerson: boolean
  /** The recovery that the run continues from; null if there is none, or it has failed. */
  recovery: { strategy: string; automatic: boolean } | null
}

/** What an error's end depends on, as it was before the event. */
export interface IncidentContext {
  error: SessionRow['error']
  currentRun: number | null
  incident: Incident | null
}

/** What an event ends; null if it ends nothing. */
export function errorEndOf(session: IncidentContext, event: SessionEvent): ErrorEnd | null {
  if (session.incident === null) return null
  const by = endedBy(session, event)
  const outcome = outcomeOf(session, event)
  if (by === null && outcome === null) return null
  return { ended_at: by === null ? null : new Date(event.at).toISOString(), ended_by: by, outcome }
}

export function incidentAfter(session: IncidentContext, event: SessionEvent): Incident | null {
  const { incident } = session
  const end = errorEndOf(session, event)
  const byPerson = (incident?.byPerson ?? false) || end?.ended_by === 'person'
  if (event.type === 'error_entered') {
    return { seq: incident?.seq ?? event.seq, code: event.code, byPerson, recovery: recoveryAfter(session, event) }
  }
  return incident && (end?.outcome ?? null) === null ? { ...incident, byPerson, recovery: recoveryAfter(session, event) } : null
}

function recoveryAfter({ incident }: IncidentContext, event: SessionEvent): Incident['recovery'] {
  if (event.type === 'recovery_started')
    return { strategy: event.strategy, automatic: event.automatic ?? (event.strategy === 'automatic' && event.by === undefined) }
  return event.type === 'error_entered' && event.strategy !== 'automatic' ? null : (incident?.recovery ?? null)
}

/** What has ended with an event, for metrics. */
export function endingsOf(session: IncidentContext, event: SessionEvent): Ending[] {
  const { error, incident } = session
  const end = errorEndOf(session, event)
  if (!end || !incident) return []
  const { ended_by: by, outcome } = end
  const { recovery } = incident
  // The run of a recovery continues once the cause of such an error has ended.
  const isHeldUp = event.type === 'error_entered' && event.strategy === 'automatic'
  const healed = incident.byPerson || by === 'person' ? 'healed_by_person' : 'healed_by_itself'
  return [
    ...(error && by ? [{ what: 'error', code: error.code, by, ms: Math.max(0, event.at - error.at) } as const] : []),
    ...(recovery && outcome && !isHeldUp ? [{ what: 'recovery', ...recovery, outcome } as const] : []),
    ...(outcome && outcome !== 'failed'
      ? [{ what: 'incident', code: incident.code, outcome: outcomeForMetrics(outcome, healed) } as const]
      : []),
  ]
}

/** An interrupted run counts as given up, because a rollback may follow later; the view `incidents` says what did. */
function outcomeForMetrics(outcome: IncidentOutcome, healed: 'healed_by_itself' | 'healed_by_person') {
  if (outcome === 'completed') return healed
  return outcome === 'rolled_back' ? outcome : 'given_up'
}

/** Who ended the error that the session was in; null if the event does not end it. */
function endedBy({ error, incident }: IncidentContext, event: SessionEvent): EndedBy | null {
  if (!error) return null
  switch (event.type) {
    case 'recovery_ended':
      return (incident?.recovery?.automatic ?? event.strategy === 'automatic') ? 'itself' : 'person'
    case 'run_started':
    case 'run_interrupted':
      return 'person'
    case 'rolled_back':
      return event.keepsRun ? 'itself' : 'person'
    case 'session_resumed':
      return error.strategy === 'automatic' ? 'itself' : null
    case 'session_closed':
      return event.reason === 'requested' ? 'person' : 'itself'
    case 'run_completed':
    case 'error_entered':
    case 'session_started':
    case 'forked':
      return 'itself'
    default:
      return null
  }
}

function outcomeOf({ error, currentRun }: IncidentContext, event: SessionEvent): IncidentOutcome | null {
  switch (event.type) {
    case 'run_completed':
      return 'completed'
    case 'run_interrupted':
      return 'interrupted'
    case 'error_entered':
      return 'failed'
    case 'rolled_back':
      return event.keepsRun ? null : 'rolled_back'
    case 'recovery_ended':
      if (event.strategy === 'abandon') return 'abandoned'
      // A restarted run begins again; without a run, nothing is left to do.
      return currentRun === null && event.strategy !== 'restart_run' ? 'completed' : null
    case 'session_resumed':
      return currentRun === null && error?.strategy === 'automatic' ? 'completed' : null
    case 'session_started':
    case 'forked':
      return 'abandoned'
    case 'session_closed':
      return 'closed'
    default:
      return null
  }
}

/** An error that has not ended. */
export const NOT_ENDED: ErrorEnd = { ended_at: null, ended_by: null, outcome: null }

/** Completes the end of an error that is partly known; known values stay. */
export function laterEnd(known: ErrorEnd, end: ErrorEnd): ErrorEnd {
  return {
    ended_at: known.ended_at ?? end.ended_at,
    ended_by: known.ended_by ?? end.ended_by,
    outcome: known.outcome ?? end.outcome,
  }
}
