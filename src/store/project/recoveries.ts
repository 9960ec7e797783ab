// The projection of `recoveries`: what took a session out of an error or back to an earlier point, who did it, and the outcome.
import type { EventOf, SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import type { RECOVERIES, RowOf } from '../postgres/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'
import { defined } from '../../session/defined.ts'

type Row = RowOf<typeof RECOVERIES>

/** The rows of recoveries that events make. */
export interface RecoveryRows {
  recoveries: Row[]
  /** The first outcome among the events, for stored recoveries before event `before`. */
  outcome: (Outcome & { before: number }) | null
}

/** The outcome of a recovery. */
type Outcome = Pick<Row, 'outcome' | 'outcome_code' | 'ended_at'>

/** Kinds of rows that have an outcome: the outcome of the run that they led to. */
export const WITH_OUTCOME: readonly string[] = ['recovery_started', 'run_started']

/** Applies one event to the rows. `error`: the one that the session was in before it. */
export function projectRecovery(rows: RecoveryRows, event: SessionEvent, error: { code: string } | null): void {
  const outcome = outcomeOf(event)
  if (outcome) end(rows, event.seq, outcome)
  const row = rowOf(event, error)
  if (row) rows.recoveries.push(row)
}

function end(rows: RecoveryRows, before: number, outcome: Outcome): void {
  for (const row of rows.recoveries) {
    if (row.outcome === null && WITH_OUTCOME.includes(String(row.kind))) Object.assign(row, outcome)
  }
  rows.outcome ??= { ...outcome, before }
}

/** How the run that a recovery led to ended; undefined if the event ends no run. */
function outcomeOf(event: SessionEvent): Outcome | undefined {
  const as = (outcome: string, code: string | null = null): Outcome => {
    return { outcome, outcome_code: sanitiser().text(code), ended_at: new Date(event.at).toISOString() }
  }
  switch (event.type) {
    case 'run_completed':
      return as('completed')
    case 'run_interrupted':
      return as('interrupted')
    case 'error_entered':
      // The run continues once the cause is resolved.
      return event.strategy === 'automatic' ? undefined : as('failed', event.code)
    case 'rolled_back':
      return event.keepsRun ? undefined : as('rolled_back')
    default:
      return undefined
  }
}

/** The row that an event makes, if any. */
function rowOf(event: SessionEvent, error: { code: string } | null): Row | undefined {
  switch (event.type) {
    case 'recovery_started':
      return startedRow(event, error)
    case 'recovery_ended':
      // Only for an error that pawl leaves once its cause is resolved; any other recovery ends as soon as it starts.
      return event.strategy === 'automatic' ? row(event, { strategy: event.strategy }) : undefined
    case 'recovery_refused': {
      const { strategy, by, reason: note, code, message } = event
      return row(event, { strategy, by, note, details: { code, message } })
    }
    case 'run_started':
      return error ? row(event, { details: { code: error.code, messageId: event.messageId } }) : undefined
    case 'rolled_back': {
      const { v: _v, seq: _seq, at: _at, type: _type, by, reason, ...details } = event
      return row(event, { by, note: reason, details: details as unknown as Json })
    }
    case 'session_resumed': {
      const { fromEpoch, executionId, resetOf, unreplayable } = event
      const details = { fromEpoch, executionId, ...defined({ resetOf, unreplayable: unreplayable?.executionId }) }
      return row(event, { note: unreplayable?.reason, details })
    }
    case 'session_started': {
      const { after, unreplayable, executionId } = event
      if (!after && !unreplayable) return undefined
      const details = {
        ...(after && { after: after as unknown as Json }),
        executionId,
        ...defined({ unreplayable: unreplayable?.executionId }),
      }
      return row(event, { note: unreplayable?.reason, details })
    }
    case 'tool_resolved': {
      if (event.by !== 'person') return undefined
      const { callId, tool, happened, decision = null } = event
      return row(event, { by: event.decidedBy, note: event.note, details: { callId, tool, happened, decision } })
    }
    default:
      return undefined
  }
}

/** Who or what started a recovery, by which strategy, after which error. The outcome of a run that is abandoned is known at once. */
function startedRow(event: EventOf<'recovery_started'>, error: { code: string } | null): Row {
  const { strategy, by, reason: note, automatic, toSeq, turn, keep, skip, redo, force } = event
  const details = { code: error?.code ?? null, automatic: automatic ?? false, ...defined({ toSeq, turn, keep, skip, redo, force }) }
  const started = row(event, { strategy, by, note, details })
  return strategy === 'abandon' ? { ...started, outcome: 'abandoned', ended_at: started.at } : started
}

interface RecoveryDetails {
  strategy?: string | undefined
  by?: string | undefined
  note?: string | undefined
  details?: Json
}

function row(event: SessionEvent, { strategy, by, note, details = null }: RecoveryDetails): Row {
  const safe = sanitiser()
  const decision = { by: by ?? null, note: note ?? null, details }
  return {
    seq: event.seq,
    run: ('run' in event && event.run) || null,
    kind: event.type,
    strategy: safe.text(strategy ?? null),
    by: safe.text(decision.by),
    note: safe.text(decision.note),
    details: details === null ? null : safe.json(details),
    at: new Date(event.at).toISOString(),
    outcome: null,
    outcome_code: null,
    ended_at: null,
    raw: safe.raw(decision),
  }
}
