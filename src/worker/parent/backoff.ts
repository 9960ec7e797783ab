// Delays between restarts: short at first, and longer each time a process dies before it is ready.

const DEFAULT_MAX_MS = 5_000

export interface Backoff {
  /** Milliseconds until the next start. Default maximum: five seconds. */
  next(maxMs?: number): number
  /** The process is ready: the next restart is quick again. */
  served(): void
}

/** Delays that begin with `firstMs` and double with each successive process that died before it was ready. */
export function startBackoff(firstMs: number): Backoff {
  let failures = 0
  return {
    next: (maxMs = DEFAULT_MAX_MS) => Math.min(firstMs * 2 ** failures++, maxMs),
    served() {
      failures = 0
    },
  }
}
