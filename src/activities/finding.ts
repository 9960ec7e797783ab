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
import type { LogEntry, SessionEvent } from '../session/events.ts'
import { requestedCallsOf } from '../session/fold/turn-calls.ts'
import { placeIn } from '../session/recovery/going-back.ts'
import { keptAt, keptBeforeRun } from '../session/recovery/kept.ts'
import { TargetRefused } from '../session/recovery/targets.ts'
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
  const { target, upToSeq = input.watermark.seq, newestRun, archived, calls } = input
  const past = entries.map((entry) => ({ event: eventOf(entry), digest: entry.digest }))
  try {
    return { kind: 'found', ...placeIn(past, { upToSeq, ...defined({ target, newestRun, archived, calls }) }) }
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
