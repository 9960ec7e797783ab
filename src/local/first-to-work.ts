// Races several ways to get a result, starting each one after a delay ("happy eyeballs"). The first to succeed stops the others.

/** One way to get the result. */
export interface Way<T> {
  /** Stops early if `stop` aborts, and settles only after cleaning up. */
  run(stop: AbortSignal): Promise<T>
  /** How long to wait for this way before starting the next one. Default: until this one fails. */
  headStartMs?: number
}

/** Resolves to the first result, once all other ways have ended. @throws AggregateError with each way's error, in order. */
export async function firstToWork<T>(ways: readonly Way<T>[]): Promise<T> {
  const stop = new AbortController()
  const running: Promise<T>[] = []
  try {
    for (const { run, headStartMs } of ways) {
      const latest = run(stop.signal)
      running.push(latest)
      const first = Promise.any(running).then(
        (result) => ({ result }),
        () => undefined,
      )
      const won = await Promise.race([first, headStart(latest, headStartMs)])
      if (won) return won.result
    }
    return await Promise.any(running)
  } finally {
    stop.abort(new Error('another way was faster'))
    await Promise.allSettled(running)
  }
}

/** Resolves when `run` fails, or after `ms`. */
function headStart(run: Promise<unknown>, ms: number | undefined): Promise<void> {
  return new Promise((resolve) => {
    const timer = ms === undefined ? undefined : setTimeout(resolve, ms)
    run.catch(() => resolve()).finally(() => clearTimeout(timer))
  })
}
