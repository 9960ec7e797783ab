// A temporary outage.

/** Returns a function to ask at each call. It returns true for `lastsMs`, beginning with the call after the first `after` ones. */
export function outage(after: number, lastsMs: number): () => boolean {
  let calls = 0
  let since: number | undefined
  return () => {
    calls += 1
    if (calls > after) since ??= Date.now()
    return since !== undefined && Date.now() - since < lastsMs
  }
}
