// Rotating API keys: the user's function runs here, and pawl passes each new key to the processes that hold a connection.

const ASK_EVERY_MS = 60_000

export interface ChangingKey {
  /** The newest key, if there is one. */
  newest(): { apiKey?: string }
  end(): void
}

/** Calls the user's function at an interval, and `tell` with each new key. */
export function startApiKeys(apiKey: string | (() => string) | undefined, tell: (newest: string) => void): ChangingKey {
  if (typeof apiKey !== 'function') return { newest: () => (apiKey === undefined ? {} : { apiKey }), end: () => undefined }
  let known = apiKey()
  const asking = setInterval(() => {
    const newest = apiKey()
    if (newest === known) return
    known = newest
    tell(newest)
  }, ASK_EVERY_MS)
  asking.unref()
  return { newest: () => ({ apiKey: known }), end: () => clearInterval(asking) }
}
