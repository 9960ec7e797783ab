// The plan and the memory of a session: two values that are kept alongside the transcript. Each change makes a new version, and going back
// restores an earlier one.
import type { SessionEvent } from '../events.ts'
import type { RestoredValues } from '../recovery/restored.ts'
import { bytesOfMemory, type Memory, type MemoryChange, remembered } from './memory.ts'
import { bytesOfPlan, changed, type Plan, type PlanChange } from './plan.ts'

/** One version of a session's plan, and the change that made it. */
export interface PlanVersion extends Plan, KeptVersion<PlanChange> {}

/** One version of a session's memory, and the change that made it. */
export interface MemoryVersion extends Memory, KeptVersion<MemoryChange> {}

/** How a version was made, and whether it still counts. */
interface KeptVersion<Change> {
  /** The event that made it. */
  seq: number
  /** When, in milliseconds since 1970. */
  at: number
  /** The run in which it was made. */
  run: number
  /** The turn in which it was made. */
  turn: number
  /** What was changed. */
  change: Change
  /** The event that took the session back to before this version; absent: none has. */
  archivedSeq?: number
}

/** The versions of the plan. */
export const PLAN = keptValue<Plan, PlanChange>({
  changed,
  bytesOf: bytesOfPlan,
  changeIn: (event) => (event.type === 'plan_changed' ? event : undefined),
  restoredIn: ({ plan }) => plan,
})

/** The versions of the memory. */
export const MEMORY = keptValue<Memory, MemoryChange>({
  changed: remembered,
  bytesOf: bytesOfMemory,
  changeIn: (event) => (event.type === 'memory_changed' ? event : undefined),
  restoredIn: ({ memory }) => memory,
})

/** What differs between the two kept values. */
interface Kind<V extends { version: number }, C> {
  /** The next version. */
  changed(value: V | null, version: number, change: C): V
  /** Bytes of JSON, regardless of the version. */
  bytesOf(value: V): number
  /** The event, if it makes a version. */
  changeIn(event: SessionEvent): (KeptVersion<C> & { version: number }) | undefined
  /** The value that going back restores; null: there was none; undefined: the value stays as it is. */
  restoredIn(restored: RestoredValues): V | null | undefined
}

/** `PlanState`, or `MemoryState`. */
interface KeptState<V> {
  current: V | null
  version: number
  largest: number
}

/** All versions of a value, oldest first. Events are added one by one. */
interface KeptHistory<V, C> {
  add(event: SessionEvent): void
  versions: readonly (V & KeptVersion<C>)[]
}

/** A value of a session of which each change makes a new version. Pure. */
interface KeptValue<V extends { version: number }, C> {
  /** The state of the value after a change. */
  afterChange(before: KeptState<V> | undefined, version: number, change: C): KeptState<V>
  /** The state of the value after going back. */
  afterRollback(before: KeptState<V> | undefined, value: V | null): KeptState<V>
  /** The value after an event. */
  after(value: V | null, event: SessionEvent): V | null
  /** The value after the event `seq`; `events` begin with the session. */
  at(events: Iterable<SessionEvent>, seq: number): V | null
  /** The history of a session without events. */
  history(): KeptHistory<V, C>
}

function keptValue<V extends { version: number }, C>({ changed, bytesOf, changeIn, restoredIn }: Kind<V, C>): KeptValue<V, C> {
  const after = (value: V | null, event: SessionEvent): V | null => {
    if (event.type === 'session_started') return null
    const made = changeIn(event)
    if (made) return changed(value, made.version, made.change)
    const restored = event.type === 'rolled_back' || event.type === 'recovery_started' ? restoredIn(event.restored ?? {}) : undefined
    return restored === undefined ? value : restored
  }
  return {
    after,
    afterChange(before, version, change) {
      const current = changed(before?.current ?? null, version, change)
      return { current, version, largest: Math.max(before?.largest ?? 0, bytesOf(current)) }
    },
    afterRollback(before, value) {
      const { version = 0, largest = 0 } = before ?? {}
      return { current: value, version: Math.max(version, value?.version ?? 0), largest: Math.max(largest, value ? bytesOf(value) : 0) }
    },
    at(events, seq) {
      let value: V | null = null
      for (const event of events) {
        if (event.seq > seq) break
        value = after(value, event)
      }
      return value
    },
    history() {
      const versions: (V & KeptVersion<C>)[] = []
      let value: V | null = null
      return {
        versions,
        add(event) {
          const before = value
          value = after(value, event)
          const made = changeIn(event)
          if (made && value) {
            const { version, change, seq, at, run, turn } = made
            versions.push({ ...value, version, seq, at, run, turn, change })
          } else if (value !== before) {
            const kept = value?.version ?? 0
            for (const one of versions) if (one.version > kept) one.archivedSeq ??= event.seq
          }
        },
      }
    },
  }
}
