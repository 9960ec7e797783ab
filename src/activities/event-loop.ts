// Measures how long this process's event loop was blocked: a time limit that expired meanwhile proves nothing.

const TICK_MS = 250

/** Starts watching the event loop. */
export function watchLoop(): { blockedMs(): number; stop(): void } {
  let ticked = performance.now()
  let longest = 0
  const measure = (): number => {
    const now = performance.now()
    longest = Math.max(longest, now - ticked - TICK_MS)
    ticked = now
    return longest
  }
  const timer = setInterval(measure, TICK_MS)
  timer.unref()
  return {
    // The caller may run before the overdue tick, so count the time until now, too.
    blockedMs: measure,
    stop: () => clearInterval(timer),
  }
}
