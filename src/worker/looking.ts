// Checks other processes at an interval. A process that judges others by the clock must notice that it was itself frozen.

/** A check that is this late shows that this process was frozen, or the machine was asleep. */
const STOOD_STILL_MS = 3_000

/** The callbacks. */
export interface Looking {
  everyMs: number
  look(now: number): void
  /** Called instead of a check after this process was frozen for that long: it has not yet read messages that arrived meanwhile. */
  afterStandstill(ms: number, now: number): void
}

/** Starts the checks; returns the function that ends them. */
export function startLooking({ everyMs, look, afterStandstill }: Looking): () => void {
  let lookedAt = Date.now()
  const looking = setInterval(() => {
    const now = Date.now()
    const lateMs = now - lookedAt - everyMs
    lookedAt = now
    if (lateMs > STOOD_STILL_MS) afterStandstill(lateMs, now)
    else look(now)
  }, everyMs).unref()
  return () => clearInterval(looking)
}
