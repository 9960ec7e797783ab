// A time limit for user code that a job awaits: it must not delay a turn or a finished call.

/** What `work` resolves to. Rejects if it takes longer than `ms`. */
export async function inTime<T>(work: T | Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not finish within ${ms} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
