// Limits the number of steps per second by spacing them evenly.
import { setTimeout as sleep } from 'node:timers/promises'

/** A clock, in milliseconds. */
export interface Clock {
  now(): number
  /** Resolves after `ms`, or when the signal aborts. */
  sleep(ms: number, signal?: AbortSignal): Promise<void>
}

/** The computer's clock. */
export const REAL_CLOCK: Clock = {
  now: () => performance.now(),
  sleep: (ms, signal) => sleep(ms, undefined, signal && { signal }).catch(() => undefined),
}

/** Waits until the next step may begin; false if the signal aborted first. Time that passed without a step does not allow a burst. */
export function pacer(perSecond: number, clock: Clock): (signal?: AbortSignal) => Promise<boolean> {
  const intervalMs = 1_000 / perSecond
  let due = clock.now()
  return async (signal) => {
    const waitMs = due - clock.now()
    if (waitMs > 0 && !signal?.aborted) await clock.sleep(waitMs, signal)
    due = Math.max(due, clock.now()) + intervalMs
    return !signal?.aborted
  }
}
