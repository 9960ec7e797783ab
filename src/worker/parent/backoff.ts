// Delays of restarts: short at first, longer each time a process dies before it is ready.

const AT_MOST_MS = 5_000

/** Delays of one process's restarts. */
export interface Backoff {
  /** Milliseconds until the next start. Default maximum: five seconds. */
  next(atMostMs?: number): number
  /** The process is ready: the next restart is quick again. */
  served(): void
}

/** Delays that begin with `firstMs` and double with each successive process that died before it was ready. */
export function startBackoff(firstMs: number): Backoff {
  let failures = 0
  return {
    next: (atMostMs = AT_MOST_MS) => Math.min(firstMs * 2 ** failures++, atMostMs),
    served() {
      failures = 0
    },
  }
}
