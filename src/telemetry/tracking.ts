// Tracks the sessions whose events arrive: what was lost, or never known, is folded again from stored events.
import type { SessionEvent } from '../session/events.ts'
import type { SessionState } from '../session/state.ts'
import { messagesOf, project, type ProjectOptions, track, type Tracked, trackedMessage, type TrackedMessage } from './project.ts'
import type { Span } from './span.ts'

/** Where stored events are read. */
export interface Past {
  /** The session's events after `after` and up to `upTo`, in order: a long run is never in memory as a whole. */
  events(sessionId: string, after: number, upTo: number): AsyncIterable<SessionEvent>
  /** `seq` of the event with which the newest run began that did so by then; undefined: none has. */
  newestRun(sessionId: string, upTo: number): Promise<number | undefined>
  /** The state after this event; undefined if it can no longer be read, or nothing can be made of the events before. */
  stateAt(sessionId: string, seq: number): Promise<SessionState | undefined>
}

/** The sessions that are tracked. */
export interface Tracking {
  /** The spans that end with the session's next events. Events that were projected before are left out, missing ones are read. */
  add(sessionId: string, events: readonly SessionEvent[]): Promise<Span[]>
}

/** What sessions are tracked with. */
export interface TrackingOptions extends ProjectOptions {
  /** Told of events that no spans can be made of, because a foreign client or another release has written something else into them. */
  onUnreadable?(sessionId: string, error: unknown): void
}

/** How many sessions are tracked at once: those that had events last. */
const SESSIONS_KEPT = 500

/** Nothing can be made of an event. */
class Unreadable extends Error {}

/** Begins to track sessions. What is kept is a cache: which spans there are does not depend on it. */
export function trackSessions(past: Past, options: TrackingOptions): Tracking {
  const known = new Map<string, Tracked>()

  async function knownAt(sessionId: string, seq: number): Promise<Tracked | undefined> {
    const tracked = known.get(sessionId)
    known.delete(sessionId)
    if (tracked && !tracked.isIncomplete && tracked.state.seq === seq) return tracked
    return seq > 0 ? trackedAt(past, sessionId, seq, options) : undefined
  }

  async function spansOf(sessionId: string, events: readonly SessionEvent[], first: SessionEvent, spans: Span[]): Promise<void> {
    let tracked = await knownAt(sessionId, first.seq - 1)
    for (const event of events) {
      if (tracked?.isIncomplete) tracked = await trackedAt(past, sessionId, event.seq - 1, options)
      const made = projected(tracked, event, options)
      tracked = made.tracked
      spans.push(...made.spans)
    }
    if (tracked) known.set(sessionId, tracked)
    for (const oldest of known.keys()) {
      if (known.size <= SESSIONS_KEPT) break
      known.delete(oldest)
    }
  }

  async function add(sessionId: string, events: readonly SessionEvent[]): Promise<Span[]> {
    const spans: Span[] = []
    const [first] = events
    if (!first) return spans
    try {
      await spansOf(sessionId, events, first, spans)
    } catch (error) {
      // One session must not keep the spans of all others from being exported. Its next run is tracked from its own beginning.
      if (!(error instanceof Unreadable)) throw error
      options.onUnreadable?.(sessionId, error.cause)
    }
    return spans
  }

  return { add }
}

function projected(tracked: Tracked | undefined, event: SessionEvent, options: ProjectOptions): ReturnType<typeof project> {
  try {
    return project(tracked, event, options)
  } catch (cause) {
    throw new Unreadable('No spans can be made of an event.', { cause })
  }
}

/** What is tracked of a session after the event: folded from just before its newest run, because spans of earlier ones have ended. */
async function trackedAt(past: Past, sessionId: string, seq: number, options: ProjectOptions): Promise<Tracked | undefined> {
  const base = ((await past.newestRun(sessionId, seq)) ?? seq + 1) - 1
  const state = await past.stateAt(sessionId, base)
  if (!state) return undefined
  const messages = await storedMessages(past, sessionId, state, options)
  let tracked: Tracked | undefined = track(state, messages)
  for await (const event of past.events(sessionId, base, seq)) tracked = projected(tracked, event, options).tracked
  if (tracked) delete tracked.isIncomplete
  return tracked
}

async function storedMessages(
  past: Past,
  sessionId: string,
  state: SessionState,
  options: ProjectOptions,
): Promise<Map<string, TrackedMessage>> {
  const messages = new Map<string, TrackedMessage>()
  for (const { seq } of messagesOf(state)) {
    if (seq === undefined) continue
    for await (const event of past.events(sessionId, seq - 1, seq)) {
      if (event.type === 'message_received') messages.set(event.messageId, trackedMessage(event, options))
    }
  }
  return messages
}
