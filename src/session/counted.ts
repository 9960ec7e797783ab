// Formats a number of things for people.
import { numberText } from './number-text.ts'

/** `1 session`, `2 sessions`, `0 tasks`. `plural`: that of a noun with an irregular one, or of a verb. */
export function counted(count: number, noun: string, plural = `${noun}s`): string {
  return `${numberText(count)} ${count === 1 ? noun : plural}`
}
