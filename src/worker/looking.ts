// Looks at other processes at an interval. Whoever judges others by the clock must know when it was itself that stood still.

/** A look that comes so late says that this process was paused, or the machine asleep. */
const STOOD_STILL_MS = 3_000

/** What is done at an interval. */
export interface Looking {
  everyMs: number
  look(now: number): void
  /** In place of a look after this process stood still for so long: what others have said meanwhile is not read yet. */
  afterStandstill(ms: number, now: number): void
}

/** Starts looking; returns what ends it. */
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
