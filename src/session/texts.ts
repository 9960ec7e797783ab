// How long the texts are that people and programs say about a session: who did something, why, a code. They stand in events, and some
// of them in all that is carried along, so each is bounded where it enters.
import { jsonBytes } from './json.ts'

/** Bytes of JSON that a text may have, by what it says. */
export const TEXT_BYTES = { by: 1_000, reason: 4_000, note: 4_000, code: 200, name: 200 } as const

/** What a text says. */
export type TextKind = keyof typeof TEXT_BYTES

/** The text, cut where it has more bytes than its kind allows; undefined for what is not text. */
export function boundedText(text: unknown, kind: TextKind): string | undefined {
  return typeof text === 'string' ? cutText(text, TEXT_BYTES[kind]) : undefined
}

/** What is wrong with a text that a client gives, if anything is. */
export function textProblem(text: unknown, kind: TextKind): string | undefined {
  if (text === undefined) return undefined
  if (typeof text !== 'string') return `\`${kind}\` must be text.`
  const bytes = jsonBytes(text)
  if (bytes <= TEXT_BYTES[kind]) return undefined
  return `\`${kind}\` has ${bytes} bytes of JSON, the limit is ${TEXT_BYTES[kind]}: shorten it, and keep the rest elsewhere.`
}

const ELLIPSIS = '…'
/** Quotes and the ellipsis. */
const OVERHEAD = jsonBytes(ELLIPSIS)

/** The text, or as much of its beginning as has at most `maxBytes` bytes of JSON, with an ellipsis. */
export function cutText(text: string, maxBytes: number): string {
  // No character has fewer bytes than one: what is longer need not be looked at.
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
