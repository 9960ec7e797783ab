// The event with which a session begins, for tests that fold events which they make.
import type { EventBody } from '../../src/session/events.ts'

type SessionStarted = Extract<EventBody, { type: 'session_started' }>

/** The body of the first event of session `s` of agent `a`. `members`: what differs. */
export function sessionStarted(members: Partial<Omit<SessionStarted, 'type'>> = {}): SessionStarted {
  const start = { sessionId: 's', agent: 'a', context: null, tags: [], executionId: 'e', coreVersion: 1 }
  return { type: 'session_started', ...start, ...members }
}
