// Reports slow steps: nothing for two seconds, then the elapsed time.
import { tellIfSlow } from '../connect/waits.ts'

/** Told one line of text, without a line break. */
export type Say = (line: string) => void

/** Resolves as `work` does; from two seconds on says `what` and how long it has taken, every five seconds. */
export function sayIfSlow<T>(say: Say, what: string, work: Promise<T>): Promise<T> {
  return tellIfSlow(({ ms }) => say(`${what} (${Math.round(ms / 1_000)} s)`), what, work)
}
