// Tracks the sessions whose events arrive. State that is missing is rebuilt from stored events.
import type { SessionEvent } from '../session/events.ts'
import type { SessionState } from '../session/state.ts'
import { project } from './project.ts'
import type { Span } from './span.ts'
import { messagesOf, type ProjectOptions, track, type TrackedMessage, trackedMessage, type TrackedSession } from './tracked.ts'

/** Access to stored events. */
export interface TracedPast {
  /** The session's events after `after` and up to `upTo`, in order. Iterated, so that a long run is never entirely in memory. */
  events(sessionId: string, after: number, upTo: number): AsyncIterable<SessionEvent>
  /** `seq` of the event that began the newest run, among events up to `upTo`; undefined if no run had begun. */
  newestRun(sessionId: string, upTo: number): Promise<number | undefined>
  /** The state after this event; undefined if it can no longer be read, or the events before it cannot be folded. */
  stateAt(sessionId: string, seq: number): Promise<SessionState | undefined>
}

export interface SessionTracker {
  /** Returns the spans that end with the session's next events. Skips events that were already projected, and reads missing ones. */
  add(sessionId: string, events: readonly SessionEvent[]): Promise<Span[]>
}

/** Options of `trackSessions`. */
export interface TrackingOptions extends ProjectOptions {
  /** Called for events that cannot be projected to spans, because a foreign client or another release wrote unexpected content. */
  onUnreadable?(sessionId: string, error: unknown): void
}

/** How many sessions are tracked at once: those with the most recent events. */
const SESSIONS_KEPT = 500

/** An event cannot be projected. */
class Unprojectable extends Error {}

/** Starts tracking sessions. The tracked state is a cache: the resulting spans do not depend on it. */
export function trackSessions(past: TracedPast, options: TrackingOptions): SessionTracker {
  const known = new Map<string, TrackedSession>()

  async function knownAt(sessionId: string, seq: number): Promise<TrackedSession | undefined> {
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
      // One session must not block the export of all other sessions' spans. Its next run is tracked from its own beginning.
      if (!(error instanceof Unprojectable)) throw error
      options.onUnreadable?.(sessionId, error.cause)
    }
    return spans
  }

  return { add }
}

function projected(tracked: TrackedSession | undefined, event: SessionEvent, options: ProjectOptions): ReturnType<typeof project> {
  try {
    return project(tracked, event, options)
  } catch (cause) {
    throw new Unprojectable('An event cannot be projected to spans.', { cause })
  }
}

/** The tracked state after the event, folded from just before the newest run, because the spans of earlier runs have ended. */
async function trackedAt(past: TracedPast, sessionId: string, seq: number, options: ProjectOptions): Promise<TrackedSession | undefined> {
  const base = ((await past.newestRun(sessionId, seq)) ?? seq + 1) - 1
  const state = await past.stateAt(sessionId, base)
  if (!state) return undefined
  const messages = await storedMessages(past, sessionId, state, options)
  let tracked: TrackedSession | undefined = track(state, messages)
  for await (const event of past.events(sessionId, base, seq)) tracked = projected(tracked, event, options).tracked
  if (tracked) delete tracked.isIncomplete
  return tracked
}

async function storedMessages(
  past: TracedPast,
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
