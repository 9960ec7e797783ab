// The outcome of a conversation, and the differences between a run with faults and the run without kills.
import type { Json } from '../../session/json.ts'
import { beginningOf } from '../../session/beginning.ts'

/** The outcome of a conversation, without values that differ between sessions. */
export interface ConversationOutcome {
  /** How each of the script's messages ended. */
  ends: Json[]
  /** Messages whose run failed, and why. */
  failed: string[]
  /** Roles and contents of the transcript. */
  transcript: Json[]
  world: Json
  effects: Json[]
  /** Tools whose calls ended with an unknown outcome. */
  unknown: string[]
  /** Problems even without kills: idempotency keys that differ each time they are computed. */
  unstable: string[]
  /** Calls that were answered without being executed, so that their tools were not tested. */
  notes: string[]
  /** Failures of any run: a conversation that did not end, or an incomplete side store. */
  problems: string[]
}

export interface Difference {
  /** What differs. */
  where: 'conversation' | 'transcript' | 'effects' | 'world' | 'problem'
  /** A readable description. */
  text: string
}

/** The verdict on a run with faults: the same as without kills, an unknown outcome (but no repeated effect), or a difference. */
export type CrashVerdict = 'ok' | 'unknown' | 'differs'

/** Compares a run with the run without kills. */
export function compare(baseline: ConversationOutcome, other: ConversationOutcome): { verdict: CrashVerdict; differences: Difference[] } {
  const texts = [...other.problems, ...other.unstable.filter((text) => !baseline.unstable.includes(text))]
  const problems = texts.map((text) => ({ where: 'problem' as const, text }))
  if (other.unknown.length > 0 && problems.length === 0) {
    const repeated = surplus(other.effects, baseline.effects)
    const text = `whether ${[...new Set(other.unknown)].join(', ')} happened is unknown; a \`verify\` could find out`
    if (repeated.length === 0) return { verdict: 'unknown', differences: [{ where: 'conversation', text }] }
  }
  const differences = [
    ...problems,
    ...effectDifferences(baseline.effects, other.effects),
    ...differenceIn('world', baseline.world, other.world),
    ...differenceIn('conversation', baseline.ends, other.ends),
    ...differenceIn('transcript', baseline.transcript, other.transcript),
  ]
  return { verdict: differences.length === 0 ? 'ok' : 'differs', differences }
}

/** Describes the first difference between two values; undefined if they are equal. */
export function firstDifference(expected: Json | undefined, actual: Json | undefined, path = ''): string | undefined {
  if (isContainer(expected) && isContainer(actual) && Array.isArray(expected) === Array.isArray(actual)) {
    const [left, right] = [expected as Record<string, Json>, actual as Record<string, Json>]
    for (const key of new Set([...Object.keys(left), ...Object.keys(right)])) {
      const found = firstDifference(left[key], right[key], `${path}/${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  return Object.is(expected, actual) ? undefined : `${path === '' ? '' : `at ${path}: `}${brief(actual)} instead of ${brief(expected)}`
}

/** Replaces every occurrence of `names`, even within texts: values that differ between sessions must not count as differences. */
export function withoutNames<T extends Json>(value: T, names: ReadonlyMap<string, string>): T {
  let text = JSON.stringify(value)
  // Longest first, because a key may contain a session's id.
  for (const [name, stand] of [...names].toSorted(([a], [b]) => b.length - a.length)) {
    text = text.replaceAll(JSON.stringify(name).slice(1, -1), JSON.stringify(stand).slice(1, -1))
  }
  return JSON.parse(text) as T
}

function effectDifferences(baseline: readonly Json[], other: readonly Json[]): Difference[] {
  const more = counted(surplus(other, baseline)).map(
    ([text, times]) =>
      `${text} ${times === 1 ? 'once' : `${times} times`} more than without kills${timesIn(baseline, text) > 0 ? ' (repeated)' : ''}`,
  )
  const less = counted(surplus(baseline, other)).map(
    ([text, times]) => `${text} is missing${timesIn(other, text) > 0 || times > 1 ? ` (${times} of them)` : ''}`,
  )
  const texts = [...more, ...less]
  if (texts.length === 0 && firstDifference([...baseline], [...other]) !== undefined) texts.push('the same effects in a different order')
  return texts.map((text) => ({ where: 'effects', text }))
}

function differenceIn(where: Difference['where'], expected: Json, actual: Json): Difference[] {
  const text = firstDifference(expected, actual)
  return text === undefined ? [] : [{ where, text }]
}

/** The members of `all` that remain after removing those of `known`. */
function surplus(all: readonly Json[], known: readonly Json[]): Json[] {
  const left = known.map(textOf)
  return all.filter((one) => {
    const at = left.indexOf(textOf(one))
    if (at >= 0) left.splice(at, 1)
    return at < 0
  })
}

function counted(values: readonly Json[]): [text: string, times: number][] {
  const texts = values.map(textOf)
  return [...new Set(texts)].map((text) => [text, texts.filter((other) => other === text).length])
}

const timesIn = (values: readonly Json[], text: string): number => values.filter((value) => textOf(value) === text).length

/** The order of an object's members does not matter. */
function textOf(value: Json): string {
  return typeof value === 'string' ? value : JSON.stringify(value, (_, inner: Json) => (isPlain(inner) ? sorted(inner) : inner))
}

const sorted = (value: Record<string, Json>): Record<string, Json> =>
  Object.fromEntries(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))
const isContainer = (value: Json | undefined): boolean => typeof value === 'object' && value !== null
const isPlain = (value: Json): value is Record<string, Json> => isContainer(value) && !Array.isArray(value)

const BRIEF = 160

function brief(value: Json | undefined): string {
  if (value === undefined) return 'nothing'
  const text = JSON.stringify(value)
  return text.length > BRIEF ? `${beginningOf(text, BRIEF)}…` : text
}
