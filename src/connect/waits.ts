// Saying what is waited for, once that takes longer than a person expects.

/** What is waited for, such as `Postgres at db:5432/pawl`, and for how long by now. */
export interface Wait {
  /** What is waited for. */
  for: string
  /** Milliseconds so far. */
  ms: number
}

/** Is told of a wait after two seconds, and then every five seconds until it ends. */
export type TellWait = (wait: Wait) => void

const FIRST_MS = 2_000
const EVERY_MS = 5_000

/** Resolves as `work` does. `what` is asked for only if there is something to tell; undefined: nothing is known to tell. */
export async function tellIfSlow<T>(
  tell: TellWait | undefined,
  what: string | (() => Promise<string | undefined>),
  work: Promise<T>,
): Promise<T> {
  if (!tell) return work
  const begun = Date.now()
  let over = false
  async function say(): Promise<void> {
    const waitsFor = typeof what === 'string' ? what : await what().catch(() => undefined)
    if (waitsFor !== undefined && !over) tell?.({ for: waitsFor, ms: Date.now() - begun })
  }
  let every: NodeJS.Timeout | undefined
  const first = setTimeout(() => {
    void say()
    every = setInterval(() => void say(), EVERY_MS)
  }, FIRST_MS)
  try {
    return await work
  } finally {
    over = true
    clearTimeout(first)
    clearInterval(every)
  }
}
