// Waits for something that may arrive too late to be useful.
import { numberText } from '../session/number-text.ts'

/** The result of `work`, or undefined if it takes longer than `ms`. */
export async function inTime<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}

/** The result of `work`. Rejects if it takes longer than `ms`. */
export async function inTimeOrThrow<T>(work: T | Promise<T>, ms: number): Promise<T> {
  const done = await inTime(
    Promise.resolve(work).then((value) => ({ value })),
    ms,
  )
  if (!done) throw new Error(`it did not finish within ${numberText(ms)} ms`)
  return done.value
}
