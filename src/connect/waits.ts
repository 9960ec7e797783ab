// Reports waits that take longer than a user expects.

/** A wait: its cause, such as `Postgres at db:5432/pawl`, and its duration so far. */
export interface Wait {
  /** What the caller is waiting for. */
  for: string
  /** Milliseconds so far. */
  ms: number
}

/** Called for a wait after two seconds, then every five seconds until it ends. */
export type TellWait = (wait: Wait) => void

const FIRST_MS = 2_000
const EVERY_MS = 5_000

/** Resolves as `work` does. `what` names the cause and is called only for a slow wait; if it returns undefined, nothing is reported. */
export async function reportIfSlow<T>(
  tell: TellWait | undefined,
  what: string | (() => Promise<string | undefined>),
  work: Promise<T>,
): Promise<T> {
  if (!tell) return work
  const begun = Date.now()
  let over = false
  async function report(): Promise<void> {
    const waitsFor = typeof what === 'string' ? what : await what().catch(() => undefined)
    if (waitsFor !== undefined && !over) tell?.({ for: waitsFor, ms: Date.now() - begun })
  }
  let every: NodeJS.Timeout | undefined
  const first = setTimeout(() => {
    void report()
    every = setInterval(() => void report(), EVERY_MS)
  }, FIRST_MS)
  try {
    return await work
  } finally {
    over = true
    clearTimeout(first)
    clearInterval(every)
  }
}
