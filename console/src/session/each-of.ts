// Work on many things, some at a time.

/** Calls `work` for each, at most `atOnce` at a time. `work` must not reject. */
export async function eachOf<T>(things: readonly T[], atOnce: number, work: (thing: T) => Promise<void>): Promise<void> {
  const left = [...things]
  const next = async (): Promise<void> => {
    for (let thing = left.shift(); thing !== undefined; thing = left.shift()) await work(thing)
  }
  await Promise.all(Array.from({ length: Math.min(atOnce, things.length) }, next))
}
