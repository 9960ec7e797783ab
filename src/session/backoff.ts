// How long to wait before another attempt. Bounded, and always a number: a timer of the workflow that is not would fail its task forever.
import { LONGEST_MS } from './duration.ts'

const LONGEST_BACKOFF_MS = 60_000
/** Twice as long so many times is longer than any bound of ours, and still a number. */
const MAX_DOUBLINGS = 30
/** What is waited for in place of what is not a wait. */
const SOME_WAIT_MS = 1_000

/** Milliseconds before retry number `retry` (from 1): doubled each time, a minute at most. */
export function backoffMs(baseDelayMs: number, retry: number): number {
  const doublings = Math.min(Math.max(0, retry - 1), MAX_DOUBLINGS)
  return Math.min(baseDelayMs * 2 ** doublings, LONGEST_BACKOFF_MS)
}

/** The milliseconds that were asked for; undefined for what is not a wait. */
export function waitMs(asked: unknown): number | undefined {
  return typeof asked === 'number' && Number.isFinite(asked) && asked >= 0 ? Math.ceil(asked) : undefined
}

/** How long a timer of the workflow is to be that some worker asked for, which may be of another build. */
export function timerMs(asked: unknown): number {
  return Math.min(Math.max(1, waitMs(asked) ?? SOME_WAIT_MS), LONGEST_MS)
}
