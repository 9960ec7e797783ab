// How long this process's event loop stood still: what ran out of time meanwhile was not late for its own sake.

const TICK_MS = 250

/** Watches the event loop from now on. */
export function watchLoop(): { stoodStillMs(): number; stop(): void } {
  let ticked = performance.now()
  let longest = 0
  const look = (): number => {
    const now = performance.now()
    longest = Math.max(longest, now - ticked - TICK_MS)
    ticked = now
    return longest
  }
  const timer = setInterval(look, TICK_MS)
  timer.unref()
  return {
    // Asked before the tick that is overdue, too: who asks may be what the loop did first.
    stoodStillMs: look,
    stop: () => clearInterval(timer),
  }
}
