// Work that is done one piece after another, by key.

/** Does work of the same key one after another, however the work before it has ended. */
export type Turns = <T>(key: string, work: () => Promise<T>) => Promise<T>

/** Turns in which no work is in progress. */
export function takeTurns(): Turns {
  const newest = new Map<string, Promise<unknown>>()
  return async (key, work) => {
    const before = newest.get(key)
    const mine = (async () => {
      await before?.catch(() => undefined)
      return work()
    })()
    newest.set(key, mine)
    try {
      return await mine
    } finally {
      if (newest.get(key) === mine) newest.delete(key)
    }
  }
}
