// What a user declares a slice with: the types. `define-slice.ts` has the function.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { EventOf, EventType } from '../session/events.ts'

/**
 * By event type: the value after an event of that type. A reducer returns a new value, or the one that it was given; that one and the
 * event are frozen. It is called again whenever the value is folded again, so it must depend on nothing else.
 */
export type Reducers<V> = { readonly [T in EventType]?: (value: V, event: EventOf<T>) => V }

/** Options of `defineSlice`. */
export interface SliceOptions<S extends StandardSchemaV1 = StandardSchemaV1, N extends string = string> {
  /** A letter, then up to 63 of `[A-Za-z0-9_-]`: the value is `ctx.slices[name]`. */
  name: N
  /** An integer from 1. Raise it with every change of `schema`, `initial` or `on`: snapshots of other versions are not used. */
  version: number
  /** Schema of the value, of zod or another library with Standard Schema. It must read the value from JSON, and cannot be async. */
  schema: S
  /** The value before the first event. */
  initial: StandardSchemaV1.InferOutput<S>
  /** The reducers. */
  on: Reducers<StandardSchemaV1.InferOutput<S>>
}

/** A declared slice: a typed value that is folded from a session's events. Make it with `defineSlice`. */
// oxlint-disable-next-line typescript/no-explicit-any -- a `Slice` of any value fits where any slice is taken
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
