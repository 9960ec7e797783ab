// Wakes a reader between two reads: at a notification, after a time, or when it is aborted.

/** A wait that ends at a notification, after a time, or when the signal aborts. */
export function startBell(signal: AbortSignal): { ring: () => void; wait(ms: number): Promise<void>; close(): void } {
  let rung = false
  let wake: (() => void) | undefined
  const ring = (): void => {
    rung = true
    wake?.()
  }
  signal.addEventListener('abort', ring)
  return {
    ring,
    wait: (ms) =>
      new Promise((resolve) => {
        if (rung) {
          rung = signal.aborted
          return resolve()
        }
        const timer = setTimeout(() => wake?.(), ms)
        wake = () => {
          clearTimeout(timer)
          wake = undefined
          rung = signal.aborted
          resolve()
        }
      }),
    close: () => signal.removeEventListener('abort', ring),
  }
}
