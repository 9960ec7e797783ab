// Work on several items at the same time.

/**
 * Works on the items as they come, at most so many at a time. After a failure no further item is begun; it rejects once those under way
 * have ended.
 */
export async function sideBySide<T>(
  items: Iterable<T> | AsyncIterable<T>,
  atOnce: number,
  work: (item: T) => Promise<void>,
): Promise<void> {
  const queue = queueOf(items)
  const lane = async (): Promise<void> => {
    // A lane that fails ends the queue of all.
    for await (const item of queue) await work(item)
  }
  const lanes = await Promise.allSettled(Array.from({ length: atOnce }, lane))
  const failed = lanes.find(({ status }) => status === 'rejected')
  if (failed?.status === 'rejected') throw failed.reason
}

async function* queueOf<T>(items: Iterable<T> | AsyncIterable<T>): AsyncGenerator<T> {
  yield* items
}
