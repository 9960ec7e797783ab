// The calls that wait for a person, grouped by what one decision would settle. Pure.
import { isObject } from '../../../src/session/json.ts'
import type { PendingRow } from '../api/rows.ts'

export interface Group {
  /** Identifies the entry for as long as its calls wait. */
  key: string
  /** At least one, longest wait first. More than one: a standing approval can settle them. */
  rows: readonly PendingRow[]
}

/** One call, with its arguments as they are now. */
export const keyOf = ({ sessionId, callId, digest }: Pick<PendingRow, 'sessionId' | 'callId' | 'digest'>): string =>
  `${sessionId} ${callId} ${digest}`

/** The group of a call that waits for an approval. */
export const groupOf = (row: PendingRow): string | undefined => (row.kind === 'approval' ? row.group : undefined)

/** The groups of a list, in the order of their first calls. */
export function groupsOf(rows: readonly PendingRow[]): Group[] {
  const groups = new Map<string, PendingRow[]>()
  for (const row of rows) {
    const name = groupOf(row) ?? keyOf(row)
    groups.set(name, [...(groups.get(name) ?? []), row])
  }
  return [...groups].map(([key, members]) => ({ key, rows: members }))
}

export const sessionsOf = (rows: readonly PendingRow[]): string[] => [...new Set(rows.map(({ sessionId }) => sessionId))]

/** The arguments that are the same in all inputs; undefined if none are. */
export function sharedBy(inputs: readonly unknown[]): Record<string, unknown> | undefined {
  const [first, ...others] = inputs
  if (!isObject(first) || !others.every(isObject)) return undefined
  const shared = Object.entries(first).filter(([name, value]) =>
    others.every((other) => Object.hasOwn(other, name) && JSON.stringify(other[name]) === JSON.stringify(value)),
  )
  return shared.length === 0 ? undefined : Object.fromEntries(shared)
}

/** An input without the arguments that all have; undefined if nothing is left. */
export function ownOf(input: unknown, shared: Record<string, unknown> | undefined): unknown {
  if (!isObject(input) || !shared) return input
  const own = Object.entries(input).filter(([name]) => !Object.hasOwn(shared, name))
  return own.length === 0 ? undefined : Object.fromEntries(own)
}

/** What a person has looked at before deciding together. */
export interface Looked {
  /** All calls that the decision is about. */
  seen: readonly PendingRow[]
  /** The keys of those that the list showed at that moment. */
  listed: ReadonlySet<string>
}

/** Calls that the decision is about, and that the list does not show, neither then nor now. */
export function unlisted({ seen, listed }: Looked, rows: readonly PendingRow[]): PendingRow[] {
  const now = new Set(rows.map(keyOf))
  return seen.filter((row) => !listed.has(keyOf(row)) && !now.has(keyOf(row)))
}

/** Whether other calls wait than those that the person has seen. */
export function hasChanged({ seen, listed }: Looked, rows: readonly PendingRow[]): boolean {
  const known = new Set(seen.map(keyOf))
  const now = new Set(rows.map(keyOf))
  return rows.some((row) => !known.has(keyOf(row))) || seen.some((row) => listed.has(keyOf(row)) && !now.has(keyOf(row)))
}
