// The plan and the memory of a session at a point in its past.
import type { SessionEvent } from '../events.ts'
import { MEMORY, PLAN } from '../built-in-tools/kept.ts'
import type { Memory } from '../built-in-tools/memory.ts'
import type { Plan } from '../built-in-tools/plan.ts'
import { addToVisible, applyCut, nothingVisible } from '../past/visible.ts'
import type { RestoredValues } from './restored.ts'

/** The plan and the memory after an event. */
export type PlanAndMemory = Required<RestoredValues>

/**
 * The plan and the memory after going back to the event `seq`; `events` begin with the session. Each call that stays keeps its newest
 * outcome, and with it the change that the call made.
 */
export function keptAt(events: readonly SessionEvent[], seq: number): PlanAndMemory {
  const later = laterChanges(events, seq)
  return { plan: later.reduce(PLAN.after, PLAN.at(events, seq)), memory: later.reduce(MEMORY.after, MEMORY.at(events, seq)) }
}

/** The changes after the event `seq` by calls that stay when the session goes back to it. */
function laterChanges(events: readonly SessionEvent[], seq: number): SessionEvent[] {
  const past = nothingVisible(({ type }) => type === 'plan_changed' || type === 'memory_changed')
  for (const event of events) addToVisible(past, event)
  applyCut(past, { at: Number.POSITIVE_INFINITY, after: seq, taken: 'leave', waiting: 0, again: [] })
  // A change stays even if its call is made again.
  return past.entries.flatMap(({ event, out }) => (event.seq > seq && (!out || out.outcomes) ? [event] : []))
}

/** The plan and the memory before a run began; undefined if the events do not include its beginning. */
export function keptBeforeRun(events: readonly SessionEvent[], run: number): PlanAndMemory | undefined {
  const start = events.findLast((event) => event.type === 'run_started' && event.run === run)
  return start && keptAt(events, start.seq - 1)
}

/** What to restore: the members of `kept` that differ from `now`; undefined if none do. */
export function restoredFrom(
  kept: PlanAndMemory,
  now: { plan?: Plan | null | undefined; memory?: Memory | null | undefined },
): RestoredValues | undefined {
  const plan = kept.plan?.version !== now.plan?.version
  const memory = kept.memory?.version !== now.memory?.version
  return plan || memory ? { ...(plan && { plan: kept.plan }), ...(memory && { memory: kept.memory }) } : undefined
}
