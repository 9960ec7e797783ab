// A time limit for user code that a job awaits: it must not delay a turn or a finished call.
import { numberText } from '../session/number-text.ts'

/** Resolves as `work` does. Rejects if that takes longer than `ms` milliseconds. */
export async function inTime<T>(work: T | Promise<T>, ms: number): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`it did not finish within ${numberText(ms)} ms`)), ms)
  })
  try {
    return await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
