// API keys that are rotated: the user's function runs here, and the orchestrator is told of each new key.

const ASK_EVERY_MS = 60_000

/** The key of now; `tell` is called with each later one, until `ended`. */
export function startApiKeys(
  apiKey: string | (() => string) | undefined,
  tell: (newest: string) => void,
  ended: Promise<unknown>,
): string | undefined {
  if (typeof apiKey !== 'function') return apiKey
  let known = apiKey()
  const asking = setInterval(() => {
    const newest = apiKey()
    if (newest === known) return
    known = newest
    tell(newest)
  }, ASK_EVERY_MS)
  asking.unref()
  void ended.then(() => clearInterval(asking))
  return known
}
