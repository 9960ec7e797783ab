// Options as callers pass them: checked once, at the edge, by a zod schema whose messages say what is allowed.
import { z } from 'zod'
import { milliseconds } from '../session/duration.ts'
import { numberText } from '../session/number-text.ts'
import { InvalidOptionError } from './errors.ts'
import { beginningOf } from '../session/beginning.ts'

/** The options as `schema` reads them. `refuse` turns a sentence that names the option and says what is allowed into an error. */
export function checkOptions<S extends z.ZodType>(schema: S, given: unknown, refuse: (problem: string) => Error = invalid): z.output<S> {
  const parsed = schema.safeParse(given, { error: expectation })
  if (parsed.success) return parsed.data
  const [issue] = parsed.error.issues
  throw refuse(issue ? problemOf(innermost(issue), given, schema) : parsed.error.message)
}

function invalid(problem: string): InvalidOptionError {
  return new InvalidOptionError(problem)
}

/** What zod's built-in schemas expect. The schemas below state it themselves. */
function expectation(issue: z.core.$ZodRawIssue): string | undefined {
  if (issue.code === 'invalid_type') return `of type ${issue.expected}`
  if (issue.code === 'invalid_value') return alternatives(issue.values)
  return undefined
}

function problemOf(issue: z.core.$ZodIssue, given: unknown, schema: z.ZodType): string {
  if (issue.code === 'unrecognized_keys') return unknownOption(issue, schema)
  const value = issue.path.reduce<unknown>((at, key) => (at as Record<PropertyKey, unknown> | undefined)?.[key], given)
  const name = nameOf(issue.path)
  if (value === undefined && name !== '') return `\`${name}\` is required: ${issue.message}.`
  const [, expected = issue.message, remark = ''] = REMARK.exec(issue.message) ?? []
  return `${name === '' ? 'The options' : `\`${name}\``} must be ${expected}, not ${shown(value)}${remark}.`
}

/** An expectation and the remark after its first colon or semicolon; those in braces belong to an example. */
const REMARK = /^((?:\{[^}]*\}|[:;](?! )|[^{:;])*)([:;] .*)$/s

/** If no branch of a union fits the value: the problem with one of the value's members in the closest branch, or all branches. */
function innermost(issue: z.core.$ZodIssue): z.core.$ZodIssue {
  if (issue.code !== 'invalid_union') return issue
  const branches = issue.errors.flatMap(([first]) => (first ? [innermost(first)] : []))
  const [closest] = branches.filter(isInside).toSorted((a, b) => b.path.length - a.path.length)
  if (closest) return { ...closest, path: [...issue.path, ...closest.path] }
  return { ...issue, message: branches.map(({ message }) => message).join(' or ') || issue.message }
}

function isInside({ code, path }: z.core.$ZodIssue): boolean {
  return code === 'unrecognized_keys' || path.length > 0
}

/** The message for an unknown option, with the option that the caller probably meant. */
function unknownOption({ keys, path }: z.core.$ZodIssueUnrecognizedKeys, schema: z.ZodType): string {
  const name = String(keys[0])
  const known = Object.keys(membersOf(path.reduce<unknown>((at, key) => membersOf(at)[String(key)] ?? elementOf(at), schema)))
  const [elsewhere] = placesOf(schema, name)
  if (elsewhere !== undefined && !known.includes(name)) return `There is no option ${withinOf(path)}${name}: did you mean ${elsewhere}?`
  const [nearest] = known.map((other) => ({ other, far: distance(name, other) })).sort((a, b) => a.far - b.far)
  const within = withinOf(path)
  const hint =
    nearest && nearest.far <= name.length * 0.4 ? `did you mean ${within}${nearest.other}?` : `the options are ${known.join(', ')}.`
  return `There is no option ${within}${name}: ${hint}`
}

const withinOf = (path: readonly PropertyKey[]): string => (path.length > 0 ? `${nameOf(path)}.` : '')

/** Where the options have a member of this name: the nearest to the root come first. */
function placesOf(schema: unknown, name: string): string[] {
  const members = Object.entries(membersOf(schema))
  const inner = members.flatMap(([member, of]) => placesOf(of, name).map((place) => `${member}.${place}`))
  return [...members.flatMap(([member]) => (member === name ? [member] : [])), ...inner]
}

/** The members of an object's schema; of a union, those of all its objects. */
function membersOf(schema: unknown): Record<string, unknown> {
  const inner = unwrapped(schema)
  if (inner instanceof z.ZodUnion) return Object.assign({}, ...inner.options.map(membersOf)) as Record<string, unknown>
  return inner instanceof z.ZodObject ? inner.shape : {}
}

function elementOf(schema: unknown): unknown {
  const inner = unwrapped(schema)
  return inner instanceof z.ZodArray ? inner.element : undefined
}

function unwrapped(schema: unknown): unknown {
  return schema instanceof z.ZodOptional || schema instanceof z.ZodDefault ? unwrapped(schema.unwrap()) : schema
}

function nameOf(path: readonly PropertyKey[]): string {
  return path.reduce<string>(
    (name, key) => (typeof key === 'number' ? `${name}[${key}]` : name === '' ? String(key) : `${name}.${String(key)}`),
    '',
  )
}

/** How many letters differ (Levenshtein distance). */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (const [i, letter] of Array.from(a).entries()) {
    const next = [i + 1]
    for (let j = 0; j < b.length; j++) {
      next.push(Math.min((row[j] ?? 0) + (letter === b[j] ? 0 : 1), (row[j + 1] ?? 0) + 1, (next[j] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

function alternatives(values: readonly unknown[]): string {
  const shown = values.map((value) => (typeof value === 'string' ? `'${value}'` : String(value)))
  return [shown.slice(0, -1).join(', '), shown.at(-1)].filter(Boolean).join(' or ')
}

const SHOWN = 80

/** A value in a message: short, and on one line whatever it is. */
function shown(value: unknown): string {
  if (typeof value === 'function') return 'a function'
  if (typeof value === 'number' && Number.isSafeInteger(value)) return value.toLocaleString('en-US', { useGrouping: 'min2' })
  if (typeof value === 'number' || typeof value === 'bigint' || value instanceof Date) return String(value)
  try {
    return beginningOf(JSON.stringify(value) ?? String(value), SHOWN)
  } catch {
    return `a value of type ${typeof value}`
  }
}

/** An object with these members and no others. */
export function options<T extends z.core.$ZodLooseShape>(shape: T, expected = 'an object'): z.ZodObject<T, z.core.$strict> {
  return z.strictObject(shape, { error: (issue) => (issue.code === 'unrecognized_keys' ? undefined : expected) })
}

/** A value that `is` accepts; `expected` describes it. */
export function where<T>(is: (value: unknown) => boolean, expected: string): z.ZodCustom<T, T> {
  return z.custom<T>(is, { error: expected })
}

export function integer(min: number, max = Number.MAX_SAFE_INTEGER): z.ZodCustom<number, number> {
  const bounds = [
    ...(min > Number.MIN_SAFE_INTEGER ? [` from ${numberText(min)}`] : []),
    ...(max < Number.MAX_SAFE_INTEGER ? [` to ${numberText(max)}`] : []),
  ]
  const expected = `an integer${bounds.join('')}`
  return where((value) => Number.isSafeInteger(value) && Number(value) >= min && Number(value) <= max, expected)
}

/** A duration, read as milliseconds; by default above 0 and up to 24 days. */
export function duration(
  bounds: { min?: number; max?: number; limits?: string; example?: string } = {},
): z.ZodPipe<z.ZodCustom, z.ZodTransform<number>> {
  const { limits = bounds.min === 0 ? 'from 0 to 24 days' : 'above 0 and at most 24 days', example = '30s' } = bounds
  return where<unknown>(
    (value) => milliseconds(value, bounds) !== undefined,
    `a number of milliseconds or a string such as '${example}', ${limits}`,
  ).transform((value) => milliseconds(value, bounds) ?? 0) as never
}

/** Below this, a number is more likely to mean seconds. */
const SURELY_MS = 1_000

/**
 * Warns of time limits below a second that are declared without a unit: who writes `timeout: 20` means 20 seconds, and would learn only from
 * calls that fail. `what`: what declares them.
 */
export function warnOfBareLimits(what: string, limits: Readonly<Record<string, unknown>>): void {
  for (const [name, value] of Object.entries(limits)) {
    if (typeof value !== 'number' || value <= 0 || value >= SURELY_MS) continue
    const text = `pawl: ${what}: \`${name}\` is ${value} ms. Write '${value}s' if you mean seconds, or '${value}ms'.`
    process.emitWarning(text, { type: 'PawlWarning', code: 'PAWL_SHORT_TIME_LIMIT' })
  }
}

/** A string that is not blank. */
export function text(expected = 'a non-empty string'): z.ZodCustom<string, string> {
  return where((value) => typeof value === 'string' && value.trim() !== '', expected)
}

/** One of these values. */
export function oneOf<const T extends string>(...values: readonly T[]): z.ZodCustom<T, T> {
  return where((value) => values.includes(value as T), alternatives(values))
}

/** A boolean. */
export function flag(): z.ZodCustom<boolean, boolean> {
  return where((value) => typeof value === 'boolean', 'true or false')
}

/** A signal that stops what the options are for. */
export function signal(): z.ZodCustom<AbortSignal, AbortSignal> {
  return where((value) => value instanceof AbortSignal, 'an AbortSignal')
}

/** A list of some of these values. */
export function someOf<T extends string>(values: readonly T[]): z.ZodCustom<T[], T[]> {
  return where(
    (given) => Array.isArray(given) && given.length > 0 && given.every((one) => values.includes(one)),
    `a list of one or more of ${values.map((value) => `'${value}'`).join(', ')}`,
  )
}

/** A function, unchecked beyond that. */
export function fn<T>(expected = 'a function'): z.ZodCustom<T, T> {
  return where((value) => typeof value === 'function', expected)
}

/** An object of a third-party class or interface whose members with these names are functions. */
export function object<T>(expected: string, ...methods: string[]): z.ZodCustom<T, T> {
  return where((value) => {
    if (typeof value !== 'object' || value === null) return false
    return methods.every((method) => typeof (value as Record<string, unknown>)[method] === 'function')
  }, expected)
}
