// Which events count in a session's slices: those that still count in the session, and replays of calls that no longer count themselves.
import { defined } from '../defined.ts'
import type { EventOf, EventType, SessionEvent } from '../events.ts'
import { goBackTo, keep, nothingVisible, type PastEntry, type VisiblePast } from '../past/visible.ts'

/** The events of a session that slices read. It grows one event at a time. */
export interface SlicePast extends VisiblePast {
  /** Their types. */
  reads: ReadonlySet<EventType>
  entries: CountedEntry[]
}

interface CountedEntry extends PastEntry {
  /** Set if the event is a replay that counts in place of this call. */
  inPlaceOf?: string
}

type Outcome = EventOf<'milestone_reached' | 'emitted' | 'tool_completed' | 'tool_resolved'>
type Replay = EventOf<'tool_completed'>

export function emptyPast(types: ReadonlySet<EventType>): SlicePast {
  // Always keeps completions, because they determine what a replay restores.
  const reads: ReadonlySet<EventType> = new Set([...types, 'tool_completed', 'tool_resolved'])
  return { ...nothingVisible(({ type }) => reads.has(type)), reads }
}

/** Adds one event, in place; returns the events that count from now on, or undefined if other events no longer count or count again. */
export function addToPast(past: SlicePast, event: SessionEvent): SessionEvent[] | undefined {
  const isMoved = goBackTo(past, event)
  const added = event.type === 'tool_completed' ? asCounted(past, event) : [{ event }]
  for (const entry of added) keep(past, entry)
  return isMoved || event.type === 'session_started' ? undefined : added.map((one) => one.event)
}

/** The events that count, oldest first. */
export function countedIn({ entries }: SlicePast): SessionEvent[] {
  return entries.flatMap(({ event, out }) => (out === undefined ? [event] : []))
}

/**
 * The replay of a call counts as that call if none of the call's completions does, because the call was removed or its outcome was unknown.
 */
function asCounted({ entries }: SlicePast, replay: Replay): CountedEntry[] {
  const of = replay.replayOf
  if (of === undefined) return [{ event: replay }]
  const did = entries.filter(({ event }) => isOutcome(event) && event.callId === of)
  const counts = ({ event, out }: PastEntry): boolean => out === undefined && event.type === 'tool_completed'
  const done = did.map(({ event }) => event).findLast(isCompletion)
  if (!done || did.some(counts) || entries.some((entry) => entry.inPlaceOf === of && counts(entry))) return [{ event: replay }]
  const { v, seq, at, type, run, turn, callId, tool } = replay
  const { value, content, blob, effectId } = done
  const { attempt, startedAt, worker } = done.type === 'tool_completed' ? done : replay
  const result = defined({ value, content, blob, effectId, startedAt, worker })
  const reports = did.flatMap(({ event, out }) =>
    out !== undefined && event.type !== 'tool_completed' && event.type !== 'tool_resolved'
      ? [{ ...event, seq, at, run, turn, callId }]
      : [],
  )
  const events: SessionEvent[] = [...reports, { v, seq, at, type, run, turn, callId, tool, attempt, ...result }]
  return events.map((event) => ({ event: Object.freeze(event), inPlaceOf: of }))
}

/** Only the call's own reports count, because hooks also run for the replay and make their own reports. */
function isOutcome(event: SessionEvent): event is Outcome {
  return isCompletion(event) || (event.type === 'emitted' && event.hook === undefined) || event.type === 'milestone_reached'
}

function isCompletion(event: SessionEvent): event is EventOf<'tool_completed' | 'tool_resolved'> {
  return event.type === 'tool_completed' ? event.replayOf === undefined : event.type === 'tool_resolved' && event.happened
}
