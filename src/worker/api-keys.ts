// API keys that are rotated: the user's function runs here, and whoever holds a connection is told of each new key.

const ASK_EVERY_MS = 60_000

/** A key that may change. */
export interface ApiKeys {
  /** The newest one, where there is any. */
  newest(): { apiKey?: string }
  end(): void
}

/** Asks for keys; `tell` is called with each later one. */
export function startApiKeys(apiKey: string | (() => string) | undefined, tell: (newest: string) => void): ApiKeys {
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
