// Slices: values folded from a session's events by the user's reducers.
import type { EventType, SessionEvent } from '../events.ts'
import { copyOf } from '../json.ts'
import { addToPast, countedIn, emptyPast, type SlicePast } from './past.ts'

/** What the fold needs to know about a slice. */
export interface SliceRules {
  readonly name: string
  readonly version: number
  readonly initial: unknown
  /** By event type: returns the value after the event. */
  readonly on: { readonly [T in EventType]?: (value: never, event: never) => unknown }
}

/** The slices of a session. They change with each event. */
export interface SlicesFold {
  readonly rules: readonly SliceRules[]
  past: SlicePast
  /** The values by name. They are frozen; the object is replaced when one changes. */
  values: SliceValues
}

/** Values of slices, by name. */
export type SliceValues = Readonly<Record<string, unknown>>

/** An event that a slice skipped, because its reducer threw. */
export interface SkippedEvent {
  slice: string
  seq: number
  type: EventType
  error: unknown
}

/** The value of a slice at a checkpoint. */
export interface SliceSnapshot {
  slice: string
  /** Version of the slice's definition. */
  version: number
  checkpoint: number
  /** `seq` of the `checkpoint_made` event. A snapshot is worthless if that event is never stored. */
  seq: number
  digest: string
  at: number
  json: string
}

/** The slices of a session without events. */
export function emptySlices(rules: readonly SliceRules[]): SlicesFold {
  const reads = new Set(rules.flatMap(({ on }) => Object.keys(on) as EventType[]))
  return { rules, past: emptyPast(reads), values: initialValues(rules) }
}

/** Adds one event, in place, with its large values restored. Reports each event that makes a reducer throw, and reports it once. */
export function addToSlices(fold: SlicesFold, event: SessionEvent, skipped: (what: SkippedEvent) => void): void {
  // Reducers get a copy, because what they keep of it becomes part of their value and is frozen.
  const own = fold.past.reads.has(event.type) ? deepFrozen(copyOf(event)) : event
  const added = addToPast(fold.past, own)
  if (!added) fold.values = initialValues(fold.rules)
  for (const one of added ?? countedIn(fold.past)) {
    fold.values = reduced(fold, one, (what) => {
      if (one.seq === event.seq) skipped(what)
    })
  }
}

function initialValues(rules: readonly SliceRules[]): SliceValues {
  return Object.freeze(Object.fromEntries(rules.map(({ name, initial }) => [name, initial])))
}

function reduced({ rules, values }: SlicesFold, event: SessionEvent, skipped: (what: SkippedEvent) => void): SliceValues {
  const changed: [string, unknown][] = []
  for (const { name, on } of rules) {
    const reduce = on[event.type] as ((value: unknown, event: SessionEvent) => unknown) | undefined
    if (!reduce) continue
    try {
      const value = usable(reduce(values[name], event))
      if (value !== values[name]) changed.push([name, value])
    } catch (error) {
      skipped({ slice: name, seq: event.seq, type: event.type, error })
    }
  }
  return changed.length === 0 ? values : Object.freeze({ ...values, ...Object.fromEntries(changed) })
}

function usable(value: unknown): unknown {
  if (value === undefined) throw new TypeError('The reducer returned undefined. Return the value, changed or not.')
  if (value instanceof Promise) {
    // The promise may reject, and no other code handles that.
    value.catch(() => undefined)
    throw new TypeError('The reducer returned a promise, but a reducer cannot be async.')
  }
  return deepFrozen(value)
}

/** Freezes a value and everything in it, so that a reducer that changes its argument throws. Frozen parts are not visited again. */
export function deepFrozen<T>(value: T): T {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.freeze(value)
  for (const part of Object.values(value)) deepFrozen(part)
  return value
}
