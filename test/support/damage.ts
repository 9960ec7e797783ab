// Events with an invalid member, as a user's code, another release or a foreign client may have put into history.
import fc from 'fast-check'
import type { SessionEvent } from '../../src/session/events.ts'

/** One member of one event becomes something else. The numbers select from what exists. */
export interface Damage {
  type: number
  event: number
  member: number
  /** Undefined: the member is missing. */
  becomes: unknown
}

const NASTY: unknown[] = [
  undefined,
  null,
  true,
  false,
  0,
  -1,
  1.5,
  -0.5,
  2 ** 31,
  2 ** 63,
  1e21,
  1e300,
  -1e308,
  5e-324,
  '',
  'text',
  '7',
  'NaN',
  '\0',
  'a\0b',
  '\ud800',
  'x\udfff\ud800',
  '\\u0000',
  'x'.repeat(200_000),
  '😀'.repeat(3_000),
  [],
  [null],
  ['\0'],
  [[1]],
  {},
  { type: 'text' },
  { '\0': '\ud800' },
  { toString: 1, length: -1, valueOf: null },
  '__proto__',
  't_1_1_0',
  't_1e9_-1_x',
]

/** Any damage. */
export const damages: fc.Arbitrary<Damage> = fc.record({
  type: fc.nat(),
  event: fc.nat(),
  member: fc.nat(),
  becomes: fc.constantFrom(...NASTY),
})

/** Members that identify the event; the workflow's journal writes them itself. */
const OWN = new Set(['v', 'seq', 'type'])

/** The events with one of them damaged; each type is equally likely. */
export function damaged(events: readonly SessionEvent[], { type, event, member, becomes }: Damage): SessionEvent[] {
  const types = [...new Set(events.map((one) => one.type))]
  const chosen = events.filter((one) => one.type === types[type % types.length])
  const target = chosen[event % chosen.length]
  return events.map((one) => (one === target ? withDamage(one, member, becomes) : one))
}

function withDamage(event: SessionEvent, member: number, becomes: unknown): SessionEvent {
  const copy = structuredClone(event)
  const paths = pathsIn(copy).filter(([first = '']) => !OWN.has(first))
  const path = paths[member % paths.length] ?? ['at']
  const last = path.at(-1) ?? ''
  const holder = path.slice(0, -1).reduce<Record<string, unknown>>((inner, key) => inner[key] as Record<string, unknown>, { ...copy })
  const owner = path.length === 1 ? (copy as unknown as Record<string, unknown>) : holder
  if (becomes === undefined) delete owner[last]
  else owner[last] = becomes
  return copy
}

/** The paths of all members, including nested ones. */
function pathsIn(value: unknown, above: string[] = []): string[][] {
  if (value === null || typeof value !== 'object') return []
  return Object.entries(value).flatMap(([key, inner]) => [[...above, key], ...pathsIn(inner, [...above, key])])
}
