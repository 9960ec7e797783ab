// What a session keeps besides its transcript, at a point in its past: the plan and the memory.
import type { SessionEvent } from '../events.ts'
import type { Memory } from '../built-in-tools/memory.ts'
import { memoryAt } from '../built-in-tools/memory-history.ts'
import type { Plan } from '../built-in-tools/plan.ts'
import { planAt } from '../built-in-tools/plan-history.ts'
import type { Restored } from './restored.ts'

/** The plan and the memory after an event. */
export type Kept = Required<Restored>

/** The plan and the memory after the event `seq`; `events` begin with the session. */
export function keptAt(events: readonly SessionEvent[], seq: number): Kept {
  return { plan: planAt(events, seq), memory: memoryAt(events, seq) }
}

/** The plan and the memory before a run began; undefined if the events do not have its beginning. */
export function keptBeforeRun(events: readonly SessionEvent[], run: number): Kept | undefined {
  const start = events.findLast((event) => event.type === 'run_started' && event.run === run)
  return start && keptAt(events, start.seq - 1)
}

/** What to restore: the members of `kept` that differ from `now`; undefined if none do. */
export function restoredFrom(
  kept: Kept,
  now: { plan?: Plan | null | undefined; memory?: Memory | null | undefined },
): Restored | undefined {
  const plan = kept.plan?.version !== now.plan?.version
  const memory = kept.memory?.version !== now.memory?.version
  return plan || memory ? { ...(plan && { plan: kept.plan }), ...(memory && { memory: kept.memory }) } : undefined
}
