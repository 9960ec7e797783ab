// Limits of short texts such as `by`, `reason`, `note` and codes. They are part of events, and some are part of every snapshot, so each is
// bounded on entry.
import { jsonBytes } from '../json.ts'
import { numberText } from '../number-text.ts'

/** Maximum bytes of JSON of a text, by kind. */
export const TEXT_BYTES = { by: 1_000, reason: 4_000, note: 4_000, code: 200, name: 200 } as const

export type TextKind = keyof typeof TEXT_BYTES

/** The text, shortened to the bytes that its kind allows; undefined if it is not a string. */
export function boundedText(text: unknown, kind: TextKind): string | undefined {
  return typeof text === 'string' ? cutText(text, TEXT_BYTES[kind]) : undefined
}

/** What is wrong with a client's text, if anything is. */
export function textProblem(text: unknown, kind: TextKind): string | undefined {
  if (text === undefined) return undefined
  if (typeof text !== 'string') return `\`${kind}\` must be a string.`
  const bytes = jsonBytes(text)
  if (bytes <= TEXT_BYTES[kind]) return undefined
  return `\`${kind}\` has ${numberText(bytes)} bytes of JSON, and the limit is ${numberText(TEXT_BYTES[kind])}. Shorten it.`
}

const ELLIPSIS = '…'
/** Bytes of the quotes and the ellipsis. */
const OVERHEAD = jsonBytes(ELLIPSIS)

/** The text, shortened with an ellipsis to at most `maxBytes` bytes of JSON. */
export function cutText(text: string, maxBytes: number): string {
  // Every character has at least one byte, so longer texts need no measuring.
  const beginning = text.slice(0, maxBytes)
  if (beginning.length === text.length && jsonBytes(text) <= maxBytes) return text
  let bytes = OVERHEAD
  let kept = ''
  for (const character of beginning) {
    bytes += jsonBytes(character) - 2
    if (bytes > maxBytes) break
    kept += character
  }
  return kept + ELLIPSIS
}
