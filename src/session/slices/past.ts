// Which events of a session count in its slices: not those that a rollback or a recovery took out of the session.
import type { EventOf, EventType, SessionEvent } from '../events.ts'
import { requestIdOf } from '../events.ts'
import { defined } from '../defined.ts'

/** The events of a session that slices read. It grows event by event. */
export interface Past {
  /** Their types. */
  reads: ReadonlySet<EventType>
  /** Oldest first. */
  entries: PastEntry[]
  /** The newest run, and the `seq` of its `run_started`. */
  run: { run: number; seq: number }
}

interface PastEntry {
  event: SessionEvent
  /** `seq` of the event that took it out. An entry with an `outAt` does not count. */
  outAt?: number
  /** The call in whose place it counts: its own event is the replay of that call. */
  inPlaceOf?: string
}

type Outcome = EventOf<'milestone_reached' | 'emitted' | 'tool_completed' | 'tool_resolved'>
type Replay = EventOf<'tool_completed'>
type IsKept = (event: SessionEvent) => boolean

/** The past before any event. */
export function emptyPast(reads: ReadonlySet<EventType>): Past {
  // Completions are always kept, because they determine what a replay brings back.
  return { reads: new Set([...reads, 'tool_completed', 'tool_resolved']), entries: [], run: { run: 0, seq: 0 } }
}

/** Adds one event, in place; returns the events that count from now on, or undefined if other events no longer count or count again. */
export function addToPast(past: Past, event: SessionEvent): SessionEvent[] | undefined {
  const isFirst = event.type === 'session_started'
  if (isFirst) Object.assign(past, emptyPast(past.reads))
  const isMoved = event.type === 'rolled_back' && !event.keepsRun ? rewind(past, event) : exclude(past, event.seq, keptAfter(past, event))
  if (event.type === 'run_started') past.run = { run: event.run, seq: event.seq }
  const added = event.type === 'tool_completed' ? asCounted(past, event) : [{ event }]
  past.entries.push(...added.filter((one) => past.reads.has(one.event.type)))
  return isFirst || isMoved ? undefined : added.map((one) => one.event)
}

/** The events that count, oldest first. */
export function countedIn({ entries }: Past): SessionEvent[] {
  return entries.flatMap(({ event, outAt }) => (outAt === undefined ? [event] : []))
}

/** Which events stay; undefined: all of them. */
function keptAfter({ run }: Past, event: SessionEvent): IsKept | undefined {
  if (event.type === 'rolled_back') return withoutRun(run.run, event.toSeq)
  if (event.type !== 'recovery_started') return undefined
  switch (event.strategy) {
    case 'restart_run':
      return withoutRun(run.run, run.seq - 1)
    case 'abandon':
      return withoutRun(run.run, run.seq)
    case 'restart_from_last_effect':
      return event.toSeq === undefined ? undefined : withoutRun(run.run, event.toSeq)
    case 'selective':
      return keptAfterChoice(event)
    default:
      return undefined
  }
}

/** Keeps all but what the run said and did after `seq`. What users said stays. */
function withoutRun(run: number, seq: number): IsKept {
  return (one) => one.seq <= seq || !('run' in one) || one.run !== run
}

/** Calls that are made again and failures of skipped calls leave, each with what hooks said about the outcome. */
function keptAfterChoice({ redo = [], skip = [] }: EventOf<'recovery_started'>): IsKept {
  const again = new Set(redo.flatMap(({ callId, as }) => (as === callId ? [] : [callId])))
  const skipped = new Set(skip.map(requestIdOf))
  return (one) => {
    const callId = 'callId' in one ? one.callId : undefined
    // Hooks are not asked about the request again.
    if (callId === undefined || ('on' in one && one.on === 'preToolUse')) return true
    const isAboutOutcome = one.type === 'tool_failed' || ('hook' in one && one.hook !== undefined)
    return !(again.has(callId) || (isAboutOutcome && skipped.has(requestIdOf(callId))))
  }
}

/** Takes out the events that do not stay; returns whether there were any. */
function exclude({ entries }: Past, seq: number, isKept: IsKept | undefined): boolean {
  if (!isKept) return false
  const gone = entries.filter(({ event, outAt }) => outAt === undefined && !isKept(event))
  for (const entry of gone) entry.outAt = seq
  return gone.length > 0
}

/** Makes what counted then count again, with messages still to be answered; returns whether that changes anything. */
function rewind(past: Past, { seq, toSeq, upToSeq, again }: EventOf<'rolled_back'>): boolean {
  const returning = past.entries.filter(({ event, outAt }) => event.seq <= toSeq && outAt !== undefined && outAt > toSeq)
  for (const entry of returning) delete entry.outAt
  const waiting = new Set(again?.messages.map((message) => message.seq))
  const isWaiting = (one: SessionEvent): boolean => one.type === 'message_received' && (one.seq > upToSeq || waiting.has(one.seq))
  const isCut = exclude(past, seq, (one) => one.seq <= toSeq || isWaiting(one))
  return isCut || returning.length > 0
}

/** The replay of a call counts as that call if no completion of it does: the call was taken out, or its outcome was unknown. */
function asCounted({ entries }: Past, replay: Replay): PastEntry[] {
  const of = replay.replayOf
  if (of === undefined) return [{ event: replay }]
  const did = entries.filter(({ event }) => isOutcome(event) && event.callId === of)
  const counts = ({ event, outAt }: PastEntry): boolean => outAt === undefined && event.type === 'tool_completed'
  const done = did.map(({ event }) => event).findLast(isCompletion)
  if (!done || did.some(counts) || entries.some((entry) => entry.inPlaceOf === of && counts(entry))) return [{ event: replay }]
  const { v, seq, at, type, run, turn, callId, tool } = replay
  const { value, content, blob, effectId } = done
  const { attempt, startedAt, worker } = done.type === 'tool_completed' ? done : replay
  const result = defined({ value, content, blob, effectId, startedAt, worker })
  const reports = did.flatMap(({ event, outAt }) =>
    outAt !== undefined && event.type !== 'tool_completed' && event.type !== 'tool_resolved'
      ? [{ ...event, seq, at, run, turn, callId }]
      : [],
  )
  const events: SessionEvent[] = [...reports, { v, seq, at, type, run, turn, callId, tool, attempt, ...result }]
  return events.map((event) => ({ event: Object.freeze(event), inPlaceOf: of }))
}

/** Of the reports, only the call's own count: hooks run for the replay, too, and make their own reports. */
function isOutcome(event: SessionEvent): event is Outcome {
  return isCompletion(event) || (event.type === 'emitted' && event.hook === undefined) || event.type === 'milestone_reached'
}

function isCompletion(event: SessionEvent): event is EventOf<'tool_completed' | 'tool_resolved'> {
  return event.type === 'tool_completed' ? event.replayOf === undefined : event.type === 'tool_resolved' && event.happened
}
