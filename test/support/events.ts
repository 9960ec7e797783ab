// Reading a session's events in tests.
import type { EventOf, SessionEvent } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import type { EventType } from '../../src/session/events.ts'

/** All events of a session that are available now. */
export async function eventsOf(session: SessionHandle, after = 0): Promise<SessionEvent[]> {
  const events: SessionEvent[] = []
  for await (const event of session.events({ after })) events.push(event)
  return events
}

/** Those of one type. */
export function ofType<T extends EventType>(events: readonly SessionEvent[], type: T): EventOf<T>[] {
  return events.filter((event): event is EventOf<T> => event.type === type)
}
