// Something that is away for a while.

/** Whether it is away, asked at each call: from the call after the first `after` ones on, for `lastsMs`. */
export function outage(after: number, lastsMs: number): () => boolean {
  let calls = 0
  let since: number | undefined
  return () => {
    calls += 1
    if (calls > after) since ??= Date.now()
    return since !== undefined && Date.now() - since < lastsMs
  }
}
