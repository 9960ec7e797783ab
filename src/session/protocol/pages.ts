// Converts pages of the query `events` back to log entries.
import { nextDigest } from '../digest.ts'
import type { LogEntry } from '../events.ts'
import type { EventsPage } from './protocol.ts'

/** The page's entries. The digest is over the events' JSON text, which parsing and printing preserve. */
export function entriesOf(page: EventsPage): LogEntry[] {
  let prev = page.from.digest
  return page.events.map((event) => {
    const json = JSON.stringify(event)
    const entry = { seq: event.seq, prev, digest: nextDigest(prev, json), json }
    prev = entry.digest
    return entry
  })
}
