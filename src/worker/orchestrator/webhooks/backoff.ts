// When a failed request is made again, and when it is given up.

const SECOND = 1_000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

/** Pauses after each failure; the last one repeats. */
const PAUSES_MS = [5 * SECOND, 15 * SECOND, MINUTE, 5 * MINUTE, 15 * MINUTE, HOUR, 2 * HOUR, 4 * HOUR, 8 * HOUR]
/** A target may be away for a weekend. */
const GIVEN_UP_AFTER_MS = 72 * HOUR
/** The share of a pause by which it may be longer, so that many requests do not come back at the same moment. */
const SPREAD = 0.1

/**
 * Milliseconds until the next request; null if there is none. `attempts`: failed requests before this one. `waitedMs`: how long the
 * notification has been queued. `askedMs`: what the target asked for. `random`: from 0 to 1.
 */
export function pauseAfter(attempts: number, waitedMs: number, askedMs = 0, random = Math.random()): number | null {
  if (waitedMs >= GIVEN_UP_AFTER_MS) return null
  const pauseMs = PAUSES_MS[Math.min(attempts, PAUSES_MS.length - 1)] ?? 0
  return Math.round(Math.max(pauseMs * (1 + SPREAD * random), Math.min(askedMs, 8 * HOUR)))
}
