// A timer that counts only time in which the event loop was not blocked.

/** A timer that fires this late shows that the event loop was blocked. */
const BLOCKED_MS = 500

/**
 * Calls back after `ms` during which the event loop was not blocked. A late timer shows that another call blocked the loop. The response
 * that this call waits for may already have arrived, so the blocked time is added to the limit. The clock used is monotonic. Returns the
 * function that cancels it.
 */
export function afterUnblocked(ms: number, act: () => void, blockedMs = BLOCKED_MS): () => void {
  let timer: NodeJS.Timeout
  const arm = (waitMs: number): void => {
    const due = performance.now() + waitMs
    timer = setTimeout(() => {
      const lateMs = performance.now() - due
      if (lateMs > blockedMs) arm(Math.min(lateMs, ms))
      else act()
    }, waitMs)
  }
  arm(ms)
  return () => clearTimeout(timer)
}
