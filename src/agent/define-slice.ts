// `defineSlice`: checks the declaration of a slice.
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { checkOptions, fn, integer, options, where } from '../options/check.ts'
import { EVENT_TYPES } from '../session/event-types.ts'
import { deepFrozen } from '../session/slices/slices.ts'
import { DeclarationError } from './errors.ts'
import { NAMED } from './names.ts'
import { A_SCHEMA, checkNow, isSchema } from './schema.ts'
import type { Reducers, Slice, SliceOptions } from './slice.ts'

const OPTIONS = options({
  name: NAMED,
  version: integer(1),
  schema: where<StandardSchemaV1>(isSchema, A_SCHEMA),
  initial: where<unknown>((value) => value !== undefined, 'the value before the first event'),
  on: options(
    Object.fromEntries(
      EVENT_TYPES.map((type) => [type, fn('a function of the value and the event that returns the next value').optional()]),
    ),
  ),
})

/**
 * Declares a slice: a typed value that pawl folds from a session's events.
 * @throws DeclarationError `invalid_slice` for an option that is unknown, missing or not allowed, and for an `initial` that its schema
 * cannot read back from JSON.
 */
export function defineSlice<const N extends string, S extends StandardSchemaV1>(
  given: SliceOptions<S, N>,
): Slice<N, StandardSchemaV1.InferOutput<S>> {
  const name = (given as { name?: unknown } | undefined)?.name
  const bad = (problem: string, cause?: unknown): DeclarationError =>
    new DeclarationError('invalid_slice', typeof name === 'string' ? `Slice "${name}": ${problem}` : `A slice: ${problem}`, { cause })
  const { version, schema, initial, on } = checkOptions(OPTIONS, given, bad)
  type V = StandardSchemaV1.InferOutput<S>
  const slice = { name: given.name, version, schema: schema as StandardSchemaV1<unknown, V>, on: on as Reducers<V> }
  try {
    return { ...slice, initial: deepFrozen(valueOf(slice, JSON.stringify(initial))) }
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw bad(
      `its schema cannot read its initial value back from JSON (${why}). Pass a value that matches, or a schema for its JSON form.`,
      cause,
    )
  }
}

/** The value of a slice, read from JSON text. @throws the problem that its schema reports. */
export function valueOf<V>({ schema }: Pick<Slice<string, V>, 'schema'>, json: string): V {
  return checkNow(schema, JSON.parse(json))
}
