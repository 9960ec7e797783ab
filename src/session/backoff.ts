// How long to wait before another attempt. The wait is always a bounded number, because a timer with any other value would make the
// workflow task fail over and over.
import { LONGEST_MS } from './duration.ts'

const LONGEST_BACKOFF_MS = 60_000
/** After this many doublings, every delay exceeds the bound and is still a finite number. */
const MAX_DOUBLINGS = 30
/** Used in place of an invalid wait. */
const SOME_WAIT_MS = 1_000

/** Milliseconds before retry number `retry` (from 1): doubled each time, a minute at most. */
export function backoffMs(baseDelayMs: number, retry: number): number {
  return Math.min(doubled(baseDelayMs, retry - 1), LONGEST_BACKOFF_MS)
}

/** The milliseconds, doubled this many times: always a finite number. */
export function doubled(ms: number, times: number): number {
  return ms * 2 ** Math.min(Math.max(0, times), MAX_DOUBLINGS)
}

/** The requested milliseconds; undefined if the value is not a valid wait. */
function waitMs(asked: unknown): number | undefined {
  return typeof asked === 'number' && Number.isFinite(asked) && asked >= 0 ? Math.ceil(asked) : undefined
}

/** A longer requested wait is a mistake, such as a date in another unit. */
export const LONGEST_ASKED_MS = 86_400_000

/** The wait in milliseconds that a failure requests; undefined if the value is invalid or longer than a day. */
export function askedWaitMs(asked: unknown): number | undefined {
  const ms = waitMs(asked)
  return ms !== undefined && ms <= LONGEST_ASKED_MS ? ms : undefined
}

/** The length of a workflow timer, in milliseconds. Any value is possible, because the worker that requested it may run another build. */
export function timerMs(asked: unknown): number {
  return Math.min(Math.max(1, waitMs(asked) ?? SOME_WAIT_MS), LONGEST_MS)
}
