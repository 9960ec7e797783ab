// Waits of a loop that can be woken, and ended for good.

/** Waits that end early. */
export interface Waits {
  /** A wake-up from now on counts for the next `atMost`. */
  begin(): void
  wake(): void
  atLeast(ms: number): Promise<void>
  atMost(ms: number): Promise<void>
  /** Ends all current and later waits at once. */
  end(): void
}

export function wakeable(): Waits {
  let isWoken = false
  let hasEnded = false
  let finish = (): void => undefined
  let finishIfWoken = (): void => undefined
  const wait = (ms: number, isOver: boolean, setWake: (end: () => void) => void): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(resolve, ms)
      finish = () => {
        clearTimeout(timer)
        resolve()
      }
      setWake(finish)
      if (isOver || hasEnded) finish()
    })
  return {
    begin() {
      isWoken = false
    },
    wake() {
      isWoken = true
      finishIfWoken()
    },
    atLeast: (ms) => wait(ms, false, () => (finishIfWoken = () => undefined)),
    atMost: (ms) => wait(ms, isWoken, (early) => (finishIfWoken = early)),
    end() {
      hasEnded = true
      finish()
    },
  }
}
