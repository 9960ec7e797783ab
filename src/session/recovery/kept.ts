// What a session keeps besides its transcript: the plan and the memory, at a point in its past.
import type { SessionEvent } from '../events.ts'
import { type Memory, remembered } from '../built-in-tools/memory.ts'
import { memoryAt } from '../built-in-tools/memory-history.ts'
import { changed, type Plan } from '../built-in-tools/plan.ts'
import { planAt } from '../built-in-tools/plan-history.ts'
import { addToVisible, applyCut, nothingVisible } from '../past/visible.ts'
import type { Restored } from './restored.ts'

/** The plan and the memory after an event. */
export type PlanAndMemory = Required<Restored>

/**
 * The plan and the memory after going back to the event `seq`; `events` begin with the session. Each call that stays keeps its newest
 * outcome, and with it the change that the call made.
 */
export function keptAt(events: readonly SessionEvent[], seq: number): PlanAndMemory {
  const kept: PlanAndMemory = { plan: planAt(events, seq), memory: memoryAt(events, seq) }
  for (const event of laterChanges(events, seq)) {
    if (event.type === 'plan_changed') kept.plan = changed(kept.plan, event.version, event.change)
    if (event.type === 'memory_changed') kept.memory = remembered(kept.memory, event.version, event.change)
  }
  return kept
}

/** The changes after the event `seq` by calls that stay when the session goes back to it. */
function laterChanges(events: readonly SessionEvent[], seq: number): SessionEvent[] {
  const past = nothingVisible(({ type }) => type === 'plan_changed' || type === 'memory_changed')
  for (const event of events) addToVisible(past, event)
  applyCut(past, { at: Number.POSITIVE_INFINITY, after: seq, taken: 'leave', waiting: 0, again: [] })
  // A change stays even if its call is made again.
  return past.entries.flatMap(({ event, out }) => (event.seq > seq && (!out || out.outcomes) ? [event] : []))
}

/** The plan and the memory before a run began; undefined if the events do not have its beginning. */
export function keptBeforeRun(events: readonly SessionEvent[], run: number): PlanAndMemory | undefined {
  const start = events.findLast((event) => event.type === 'run_started' && event.run === run)
  return start && keptAt(events, start.seq - 1)
}

/** What to restore: the members of `kept` that differ from `now`; undefined if none do. */
export function restoredFrom(
  kept: PlanAndMemory,
  now: { plan?: Plan | null | undefined; memory?: Memory | null | undefined },
): Restored | undefined {
  const plan = kept.plan?.version !== now.plan?.version
  const memory = kept.memory?.version !== now.memory?.version
  return plan || memory ? { ...(plan && { plan: kept.plan }), ...(memory && { memory: kept.memory }) } : undefined
}
