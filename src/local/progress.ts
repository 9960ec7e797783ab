// What a person is told while something takes long: silence up to two seconds, then the time gone by.

/** Told one line of text, without a line break. */
export type Say = (line: string) => void

const FIRST_MS = 2_000
const EVERY_MS = 5_000

/** Resolves as `work` does; from two seconds on says `what` and how long it has taken, every five seconds. */
export async function sayIfSlow<T>(say: Say, what: string, work: Promise<T>): Promise<T> {
  const begun = Date.now()
  const line = () => say(`${what} (${Math.round((Date.now() - begun) / 1_000)} s)`)
  let every: NodeJS.Timeout | undefined
  const first = setTimeout(() => {
    line()
    every = setInterval(line, EVERY_MS)
  }, FIRST_MS)
  try {
    return await work
  } finally {
    clearTimeout(first)
    clearInterval(every)
  }
}
