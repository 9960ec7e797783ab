// What tools and hooks report with `ctx.spend`, and its bounds.
import type { Cost } from './spend.ts'

/** What a tool or a hook spent. */
export interface SpendNote {
  /** US dollars: a number from 0. */
  usd?: number
  /** Tokens: an integer from 0. */
  tokens?: number
  /** What it was spent on: at most 200 characters. */
  note?: string
}

/** Maximum reports of one attempt or hook, characters of a note, and the largest amount. */
export const SPEND_LIMITS = { notes: 20, noteChars: 200, amount: 1e9 } as const

/** Whether a value is a report that can be recorded. */
export function isSpendNote(given: unknown): given is SpendNote {
  if (typeof given !== 'object' || given === null) return false
  const { usd, tokens, note } = given as Record<string, unknown>
  if (usd === undefined && tokens === undefined) return false
  if (usd !== undefined && !isAmount(usd)) return false
  if (tokens !== undefined && !(isAmount(tokens) && Number.isInteger(tokens))) return false
  return note === undefined || (typeof note === 'string' && note.length <= SPEND_LIMITS.noteChars && !/\0|\p{Surrogate}/u.test(note))
}

/** Whether a value is a list of reports that fit into a call's result. */
export function areSpendNotes(given: unknown): given is SpendNote[] {
  return Array.isArray(given) && given.length <= SPEND_LIMITS.notes && given.every(isSpendNote)
}

/** The cost that a report counts as. */
export function costOfNote({ tokens = 0, usd = 0 }: SpendNote): Cost {
  return { tokens, usd }
}

function isAmount(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= SPEND_LIMITS.amount
}
