// Tracks the sessions whose events arrive: what was lost, or never known, is folded again from stored events.
import type { SessionEvent } from '../session/events.ts'
import type { SessionState } from '../session/state.ts'
import { messagesOf, project, type ProjectOptions, track, type Tracked, type TrackedMessage } from './project.ts'
import type { Span } from './span.ts'

/** Where stored events are read. */
export interface Past {
  /** The session's events after `after` and up to `upTo`, in order. */
  events(sessionId: string, after: number, upTo: number): Promise<SessionEvent[]>
  /** `seq` of the event with which the newest run began that did so by then; undefined: none has. */
  newestRun(sessionId: string, upTo: number): Promise<number | undefined>
  /** The state after this event; undefined if it can no longer be read. */
  stateAt(sessionId: string, seq: number): Promise<SessionState | undefined>
}

/** The sessions that are tracked. */
export interface Tracking {
  /** The spans that end with the session's next events. Events that were projected before are left out, missing ones are read. */
  add(sessionId: string, events: readonly SessionEvent[]): Promise<Span[]>
}

/** How many sessions are tracked at once: those that had events last. */
const SESSIONS_KEPT = 500

/** Begins to track sessions. What is kept is a cache: which spans there are does not depend on it. */
export function trackSessions(past: Past, options: ProjectOptions): Tracking {
  const known = new Map<string, Tracked>()

  async function knownAt(sessionId: string, seq: number): Promise<Tracked | undefined> {
    const tracked = known.get(sessionId)
    known.delete(sessionId)
    if (tracked && !tracked.isIncomplete && tracked.state.seq === seq) return tracked
    return seq > 0 ? trackedAt(past, sessionId, seq, options) : undefined
  }

  async function add(sessionId: string, events: readonly SessionEvent[]): Promise<Span[]> {
    const spans: Span[] = []
    const [first] = events
    if (!first) return spans
    let tracked = await knownAt(sessionId, first.seq - 1)
    for (const event of events) {
      if (tracked?.isIncomplete) tracked = await trackedAt(past, sessionId, event.seq - 1, options)
      const made = project(tracked, event, options)
      tracked = made.tracked
      spans.push(...made.spans)
    }
    if (tracked) known.set(sessionId, tracked)
    for (const oldest of known.keys()) {
      if (known.size <= SESSIONS_KEPT) break
      known.delete(oldest)
    }
    return spans
  }

  return { add }
}

/** What is tracked of a session after the event: folded from just before its newest run, because spans of earlier ones have ended. */
async function trackedAt(past: Past, sessionId: string, seq: number, options: ProjectOptions): Promise<Tracked | undefined> {
  const base = ((await past.newestRun(sessionId, seq)) ?? seq + 1) - 1
  const state = await past.stateAt(sessionId, base)
  if (!state) return undefined
  const messages = await storedMessages(past, sessionId, state)
  let tracked: Tracked | undefined = track(state, messages)
  for (const event of await past.events(sessionId, base, seq)) tracked = project(tracked, event, options).tracked
  if (tracked) delete tracked.isIncomplete
  return tracked
}

async function storedMessages(past: Past, sessionId: string, state: SessionState): Promise<Map<string, TrackedMessage>> {
  const messages = new Map<string, TrackedMessage>()
  for (const { seq } of messagesOf(state)) {
    const [event] = seq === undefined ? [] : await past.events(sessionId, seq - 1, seq)
    if (event?.type === 'message_received') messages.set(event.messageId, event)
  }
  return messages
}
