// Work that may not heed its signal must not hold up whoever waits for it.

/** What `work` gives, unless the signal aborts first; its late answer is of no interest. */
export async function unlessAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  work.catch(() => undefined)
  signal.throwIfAborted()
  let stop: () => void = () => undefined
  const stopped = new Promise<never>((_, reject) => {
    stop = () => reject(signal.reason)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([work, stopped])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
