// The versions of a session's plan, folded from its events: all of them, and the one at a point in the past.
import type { SessionEvent } from '../events.ts'
import { changed, type Plan, type PlanChange } from './plan.ts'

/** One version of a session's plan, and the change that made it. */
export interface PlanVersion extends Plan {
  /** The event that made it. */
  seq: number
  /** When, in milliseconds since 1970. */
  at: number
  /** The run in which it was made. */
  run: number
  /** The turn in which it was made. */
  turn: number
  /** What was changed. */
  change: PlanChange
  /** The event that took the session back to before this version; absent: none has. */
  archivedSeq?: number
}

/** All versions of the plan, oldest first, from events that the caller adds one by one. */
export interface PlanHistory {
  add(event: SessionEvent): void
  versions: readonly PlanVersion[]
}

/** The history of a session without events. */
export function planHistory(): PlanHistory {
  const versions: PlanVersion[] = []
  let plan: Plan | null = null
  return {
    versions,
    add(event) {
      if (event.type === 'plan_changed') {
        const { version, change, seq, at, run, turn } = event
        plan = changed(plan, version, change)
        versions.push({ ...plan, seq, at, run, turn, change })
        return
      }
      const restored = planAfter(plan, event)
      if (restored === plan) return
      plan = restored
      const kept = plan?.version ?? 0
      for (const one of versions) if (one.version > kept) one.archivedSeq ??= event.seq
    },
  }
}

/** The plan after the event `seq`; `events` begin with the session. */
export function planAt(events: Iterable<SessionEvent>, seq: number): Plan | null {
  let plan: Plan | null = null
  for (const event of events) {
    if (event.seq > seq) break
    plan = planAfter(plan, event)
  }
  return plan
}

/** The plan after an event. */
export function planAfter(plan: Plan | null, event: SessionEvent): Plan | null {
  switch (event.type) {
    case 'session_started':
      return null
    case 'plan_changed':
      return changed(plan, event.version, event.change)
    case 'rolled_back':
    case 'recovery_started':
      return event.restored?.plan === undefined ? plan : event.restored.plan
    default:
      return plan
  }
}
