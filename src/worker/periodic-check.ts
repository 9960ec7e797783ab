// Checks other processes at an interval. A process that judges others by the clock must notice that it was itself frozen.
import { steadyNow } from './steady-clock.ts'

/** A check that is this late shows that this process was frozen, or the machine was asleep. */
const FROZEN_MS = 3_000

export interface PeriodicCheck {
  everyMs: number
  check(now: number): void
  /**
   * Called instead of a check after this process was frozen for that long, because it has not yet read the messages that arrived in the
   * meantime.
   */
  afterFreeze(ms: number, now: number): void
}

/** Starts the checks; returns the function that ends them. */
export function startPeriodicCheck({ everyMs, check, afterFreeze }: PeriodicCheck): () => void {
  let checkedAt = steadyNow()
  const timer = setInterval(() => {
    const now = steadyNow()
    const lateMs = now - checkedAt - everyMs
    checkedAt = now
    if (lateMs > FROZEN_MS) afterFreeze(lateMs, now)
    else check(now)
  }, everyMs).unref()
  return () => clearInterval(timer)
}
