// Publishes the events of this process's workflows through Node's diagnostics channels.
import { channel } from 'node:diagnostics_channel'
import type { LogEntry } from '../../session/events.ts'

export const EVENTS_CHANNEL = 'pawl:events'

/** The published message. */
export interface LoggedEvents {
  sessionId: string
  entries: readonly LogEntry[]
}

const events = channel(EVENTS_CHANNEL)

/** Publishes events; costs nothing without subscribers. */
export function publishEvents(logged: LoggedEvents): void {
  if (events.hasSubscribers) events.publish(logged)
}
