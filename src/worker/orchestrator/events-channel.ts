// Tells whoever listens in this process, through Node's diagnostics channels, of the events that its workflows make.
import { channel } from 'node:diagnostics_channel'
import type { LogEntry } from '../../session/events.ts'

export const EVENTS_CHANNEL = 'pawl:events'

/** What is told. */
export interface LoggedEvents {
  sessionId: string
  entries: readonly LogEntry[]
}

const events = channel(EVENTS_CHANNEL)

/** Tells of events; costs nothing where nobody listens. */
export function publishEvents(logged: LoggedEvents): void {
  if (events.hasSubscribers) events.publish(logged)
}
