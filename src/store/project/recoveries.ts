// The projection of `recoveries`: recoveries, resumptions, rollbacks and resolutions, and who made them.
import type { SessionEvent } from '../../session/events.ts'
import type { Json } from '../../session/json.ts'
import type { RECOVERIES, RowOf } from '../write/tables.ts'
import { sanitiser } from '../postgres/sanitise.ts'

/** The row of `recoveries` that an event makes, if any. */
export function projectRecovery(event: SessionEvent): RowOf<typeof RECOVERIES> | undefined {
  switch (event.type) {
    case 'recovery_started':
      return rowOf(event, { strategy: event.strategy, by: event.by })
    case 'recovery_ended':
      return rowOf(event, { strategy: event.strategy })
    case 'rolled_back': {
      const { v: _v, seq: _seq, at: _at, type: _type, by, reason, ...details } = event
      return rowOf(event, { by, note: reason, details: details as unknown as Json })
    }
    case 'session_resumed':
      return rowOf(event, { details: { fromEpoch: event.fromEpoch, executionId: event.executionId } })
    case 'session_started':
      return event.after && rowOf(event, { details: { after: event.after as unknown as Json, executionId: event.executionId } })
    case 'tool_resolved': {
      if (event.by !== 'person') return undefined
      const { callId, tool, happened, decision = null } = event
      return rowOf(event, { by: event.decidedBy, note: event.note, details: { callId, tool, happened, decision } })
    }
    default:
      return undefined
  }
}

interface Said {
  strategy?: string | undefined
  by?: string | undefined
  note?: string | undefined
  details?: Json
}

function rowOf(event: SessionEvent, { strategy, by, note, details = null }: Said): RowOf<typeof RECOVERIES> {
  const safe = sanitiser()
  const said = { by: by ?? null, note: note ?? null, details }
  return {
    seq: event.seq,
    run: ('run' in event && event.run) || null,
    kind: event.type,
    strategy: strategy ?? null,
    by: safe.text(said.by),
    note: safe.text(said.note),
    details: details === null ? null : safe.json(details),
    at: new Date(event.at).toISOString(),
    raw: safe.raw(said),
  }
}
