// When a process that died is started again: soon, and later each time it dies before it served.

const AT_MOST_MS = 5_000

/** Delays of one process's restarts. */
export interface Backoff {
  /** Milliseconds to the next start. Default at most: five seconds. */
  next(atMostMs?: number): number
  /** It serves: the next one that dies is replaced soon again. */
  served(): void
}

/** Delays that begin with `firstMs` and double with each process in a row that died before it served. */
export function startBackoff(firstMs: number): Backoff {
  let failures = 0
  return {
    next: (atMostMs = AT_MOST_MS) => Math.min(firstMs * 2 ** failures++, atMostMs),
    served() {
      failures = 0
    },
  }
}
