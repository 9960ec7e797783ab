// Processes several items concurrently.

/**
 * Processes the items as they arrive, at most `limit` at a time. After a failure it starts no more items, and rejects once those in
 * progress have ended.
 */
export async function concurrently<T>(
  items: Iterable<T> | AsyncIterable<T>,
  limit: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = queueOf(items)
  await inLanes(limit, async () => {
    // A lane that fails ends the queue for all lanes.
    for await (const item of queue) await work(item)
  })
}

/** Runs several copies of `lane` concurrently. Once all have ended, rejects with the first error, if any. */
export async function inLanes(count: number, lane: () => Promise<void>): Promise<void> {
  const lanes = await Promise.allSettled(Array.from({ length: count }, lane))
  const failed = lanes.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

async function* queueOf<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield* items
}
