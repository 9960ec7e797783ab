// Which events of a session still count: all except those that a rollback or a recovery removed.
import type { EventOf, SessionEvent } from '../events.ts'
import { type Cut, cutOf, type NewestRun, NO_RUN, takesOut } from './cut.ts'
import { cutOutcomes, type FirstOutcomes, firstOutcomeOf, noOutcomes, noteOutcome } from './outcomes.ts'

/** The events of a session, or those that a reader needs. It grows one event at a time. */
export interface VisiblePast {
  /** Whether the reader needs the event. */
  keeps(event: SessionEvent): boolean
  /** Oldest first. */
  entries: PastEntry[]
  newest: NewestRun
  outcomes: FirstOutcomes
  /** The kept messages that no turn has accepted, by id. */
  waiting: Map<string, PastEntry>
}

/** An event of the past. */
export interface PastEntry {
  event: SessionEvent
  /** The cut that removed it; absent if it counts. */
  out?: Cut
  /** For a user's message, the turn that accepted it: the `seq` of its `turn_started`. */
  takenAt?: number
  /** For a user's message that no turn has accepted, what archived it. The message was sent at that time, so it counts. */
  archivedBy?: Cut
}

/** An empty past. */
export function nothingVisible(keeps: (event: SessionEvent) => boolean = () => true): VisiblePast {
  return { keeps, entries: [], newest: NO_RUN, outcomes: noOutcomes(), waiting: new Map() }
}

/** Adds one event, in place. */
export function addToVisible(past: VisiblePast, event: SessionEvent): void {
  goBackTo(past, event)
  keep(past, { event })
}

/** Removes what the event removes, in place, before the event is kept. Returns whether earlier events no longer count, or count again. */
export function goBackTo(past: VisiblePast, event: SessionEvent): boolean {
  const cut = cutOf(event, past.newest)
  const isMoved = cut !== undefined && applyCut(past, cut)
  if (event.type === 'session_started') Object.assign(past, nothingVisible(past.keeps))
  if (event.type === 'run_started') past.newest = { run: event.run, seq: event.seq }
  noteOutcome(past.outcomes, event)
  if (event.type === 'turn_started') take(past, event)
  return isMoved
}

/** Adds an entry, if the reader needs its event. */
export function keep({ keeps, entries, waiting }: VisiblePast, entry: PastEntry): void {
  const { event } = entry
  if (!keeps(event)) return
  entries.push(entry)
  if (event.type === 'message_received') waiting.set(event.messageId, entry)
}

function take({ waiting }: VisiblePast, { takes, seq }: EventOf<'turn_started'>): void {
  for (const messageId of takes) {
    const entry = waiting.get(messageId)
    if (entry) entry.takenAt = seq
    waiting.delete(messageId)
  }
}

/** Removes what the cut removes, in place. Returns whether events no longer count, or count again. */
export function applyCut(past: VisiblePast, cut: Cut): boolean {
  let isMoved = false
  cutOutcomes(past.outcomes, cut)
  past.waiting = new Map()
  for (const entry of past.entries) {
    const { event, out: before } = entry
    if (returns(entry, cut)) delete entry.out
    if (event.type === 'message_received') {
      if (!entry.out) cutMessage(entry, event.seq, cut)
      if (!entry.out && !entry.archivedBy && entry.takenAt === undefined) past.waiting.set(event.messageId, entry)
    } else if (isReplaceable(entry.out) && takesOut(cut, event, firstOutcomeOf(past.outcomes, event))) entry.out = cut
    isMoved ||= (before === undefined) !== (entry.out === undefined)
  }
  return isMoved
}

/**
 * Whether the later cut makes an entry count again that an earlier cut removed. That applies to everything except outcomes, of which a call
 * keeps the newest.
 */
function returns({ event, out }: PastEntry, { run, outcomes, after }: Cut): boolean {
  return out !== undefined && !out.outcomes && run === undefined && !outcomes && event.seq <= after && out.at > after
}

/** Whether a later cut may replace this one: entries removed without the users' messages may later be removed with them. */
function isReplaceable(out: Cut | undefined): boolean {
  return out === undefined || out.taken === 'stay'
}

function cutMessage(entry: PastEntry, seq: number, cut: Cut): void {
  const { takenAt } = entry
  if (entry.archivedBy) {
    if (cut.taken === 'leave' && seq > cut.after) entry.out = cut
    return
  }
  if (takenAt !== undefined && (takenAt <= cut.after || cut.taken === 'stay')) return
  if (takenAt === undefined && seq > cut.waiting) return
  delete entry.takenAt
  if (cut.again.includes(seq) || (takenAt !== undefined && cut.taken === 'wait')) return
  if (seq > cut.after) entry.out = cut
  else entry.archivedBy = cut
}
