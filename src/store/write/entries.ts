// Parses entries for the writer: each with its exact event and the checked one for rows.
import type { LogEntry, SessionEvent } from '../../session/events.ts'
import { StoreError } from '../errors.ts'
import { soundEvent } from '../project/sound-events.ts'
import type { Adjustment } from '../project/sound-values.ts'

/** An entry with its parsed event. */
export interface ParsedEntry extends LogEntry {
  /** The checked event for rows. */
  event: SessionEvent
  /** The exact event, as the workflow folds it. */
  exact: SessionEvent
  adjusted: readonly Adjustment[]
}

/** Parses an entry. `problem`: why its event has no rows. @throws StoreError `invalid_events`. */
export function parsed(entry: LogEntry, problem?: string): ParsedEntry {
  let exact: SessionEvent | undefined
  try {
    exact = JSON.parse(entry.json) as SessionEvent
  } catch {
    // The check below reports it.
  }
  if (exact === null || typeof exact !== 'object' || exact.seq !== entry.seq || typeof exact.type !== 'string') {
    throw new StoreError('invalid_events', `The text of entry ${entry.seq} is not event ${entry.seq}. Flush the event's own JSON.`)
  }
  const { event, adjusted } = soundEvent(exact)
  if (problem !== undefined) adjusted.push({ member: '', was: '', stored: '', problem })
  return { ...entry, event, exact, adjusted }
}
