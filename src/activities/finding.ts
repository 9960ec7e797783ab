// The activities that search the past of a session: for a target of a rollback or fork, for the calls of a turn, and for plan and memory at
// an earlier point.
import type {
  EventsInput,
  FindCallsInput,
  FindCallsResult,
  FindKeptInput,
  FindKeptResult,
  FindPlaceInput,
  FindPlaceResult,
  PawlActivities,
  Unreadable,
} from '../calls/activities.ts'
import { StaleWatermark } from '../calls/errors.ts'
import { defined } from '../session/defined.ts'
import { shortHash } from '../session/digest.ts'
import type { LogEntry, SessionEvent } from '../session/events.ts'
import { ACCEPTED_KEPT } from '../session/fold/fold.ts'
import { requestedCallsOf } from '../session/fold/turn-calls.ts'
import { keptAt, keptBeforeRun, restoredFrom } from '../session/recovery/kept.ts'
import { checkTarget, effectsAfter, locate, messagesAfter, newestRun, TargetRefused } from '../session/recovery/targets.ts'
import { currentSession } from './current-session.ts'
import { heartbeating } from './heartbeating.ts'
import { pageOfCalls } from './load-calls.ts'
import type { SessionReader } from './session-reader.ts'

export function findActivities(reader: SessionReader): Pick<PawlActivities, 'findPlace' | 'findCalls' | 'findKept'> {
  return {
    findPlace: (input) => inPast(reader, input, (entries) => findPlace(entries, input)),
    findCalls: (input) => inPast(reader, input, (entries) => findCalls(entries, input)),
    findKept: (input) => inPast(reader, input, (entries) => findKept(entries, input)),
  }
}

/** Searches the events of the session up to the watermark. */
function inPast<R>(reader: SessionReader, input: EventsInput, find: (entries: readonly LogEntry[]) => R): Promise<R | Unreadable> {
  const { client, sessionId, executionId } = currentSession()
  const { epoch, watermark, origin } = input
  const target = { sessionId, epoch, executionId, watermark }
  return heartbeating(async () => {
    try {
      return find(await reader.entries(target, origin ?? { seq: 0, digest: '' }, client))
    } catch (error) {
      if (error instanceof StaleWatermark) return { kind: 'stale_watermark', reason: error.what }
      throw error
    }
  })
}

const eventOf = ({ json }: LogEntry): SessionEvent => JSON.parse(json) as SessionEvent

/** A target in the past, and the effects after it, which a rollback does not undo. */
function findPlace(entries: readonly LogEntry[], input: FindPlaceInput): FindPlaceResult {
  const { archived, upToSeq, watermark, calls } = input
  const past = entries.map((entry) => ({ event: eventOf(entry), digest: entry.digest }))
  const events = past.map(({ event }) => event)
  const run = input.newestRun && newestRun(events)
  if (input.newestRun && !run)
    return { kind: 'refused', code: 'run_not_found', reason: 'The session has no run to repeat: send a message.' }
  const target = run ? { run: run.run } : input.target
  try {
    const place = locate(past, target && checkTarget(target), { archived: archived === true })
    // A repeated run accepts its own messages again; waiting messages keep waiting.
    const messages = messagesAfter(events, place.seq, run ? 0 : (upToSeq ?? watermark.seq))
    return {
      kind: 'found',
      ...place,
      ...effectsAfter(events, place.seq, calls),
      removed: run ? [] : messages.map(({ messageId }) => shortHash(messageId)).slice(-ACCEPTED_KEPT),
      ...(run && { again: { messages, intent: run.intent } }),
      ...defined({ restored: restoredFrom(keptAt(events, place.seq), keptAt(events, watermark.seq)) }),
    }
  } catch (error) {
    if (error instanceof TargetRefused) return { kind: 'refused', code: error.code, reason: error.message }
    throw error
  }
}

/** The calls of a turn with their arguments, which a state drops once the calls have ended. */
function findCalls(entries: readonly LogEntry[], { answerSeq, from }: FindCallsInput): FindCallsResult {
  const events = entries.filter(({ seq }) => seq >= answerSeq).map(eventOf)
  return { kind: 'found', ...pageOfCalls(requestedCallsOf(events), from) }
}

/** Plan and memory at an earlier point of the session, which a recovery restores. */
function findKept(entries: readonly LogEntry[], { watermark, beforeRun, upToSeq }: FindKeptInput): FindKeptResult {
  const events = entries.map(eventOf)
  const kept = beforeRun === undefined ? keptAt(events, upToSeq ?? watermark.seq) : keptBeforeRun(events, beforeRun)
  return { kind: 'found', ...defined({ kept }) }
}
