// The types of a slice's declaration. `define-slice.ts` has the function.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { EventOf, EventType } from '../session/events.ts'

/**
 * Reducers by event type: each returns the value after an event of that type, either a new value or the one it received. The received value
 * and the event are frozen. pawl calls a reducer each time it folds the value, so a reducer must depend only on these two.
 */
export type Reducers<V> = { readonly [T in EventType]?: (value: V, event: EventOf<T>) => V }

/** Options of `defineSlice`. */
export interface SliceOptions<S extends StandardSchemaV1 = StandardSchemaV1, N extends string = string> {
  /** A letter, then up to 63 of `[A-Za-z0-9_-]`: the value is `ctx.slices[name]`. */
  name: N
  /** An integer from 1. Raise it with every change of `schema`, `initial` or `on`: pawl does not use snapshots of other versions. */
  version: number
  /**
   * Schema of the value, from zod or another library that supports Standard Schema. It must read the value from JSON, and cannot be async.
   */
  schema: S
  /** The value before the first event. */
  initial: StandardSchemaV1.InferOutput<S>
  /** The reducers. */
  on: Reducers<StandardSchemaV1.InferOutput<S>>
}

/** A declared slice: a typed value that pawl folds from a session's events. Declare it with `defineSlice`. */
// oxlint-disable-next-line typescript/no-explicit-any -- a `Slice` of any value fits where any slice is accepted
export interface Slice<N extends string = string, V = any> {
  /** Its name. */
  readonly name: N
  /** Its version. */
  readonly version: number
  /** Schema of the value. */
  readonly schema: StandardSchemaV1<unknown, V>
  /** The value before the first event; frozen. */
  readonly initial: V
  /** The reducers. */
  readonly on: Reducers<V>
}

/** The values of slices by their names, from a list of them: `SlicesOf<[typeof order, typeof progress]>`. */
export type SlicesOf<L extends readonly Slice[]> = { readonly [D in L[number] as D['name']]: D extends Slice<string, infer V> ? V : never }
