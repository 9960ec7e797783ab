// Text for a terminal of 80 columns.
import { beginningOf } from '../../session/beginning.ts'

/** The usual width of a terminal. */
export const COLUMNS = 80

/** The text in lines that fit, broken between words. The first line begins with `first`, the others with as many spaces. */
export function wrapped(text: string, first = ''): string[] {
  const room = COLUMNS - first.length
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= room) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines.map((line, at) => `${at === 0 ? first : ' '.repeat(first.length)}${line}`)
}

/** The text, shortened to `room`: the parentheses at its end are kept, and the text before them is cut. */
export function shortened(text: string, room: number): string {
  if (text.length <= room) return text
  // The beginning names the kind, the end the instance.
  const tail = text.slice(text.lastIndexOf('('))
  const head = text.slice(0, text.length - tail.length - 1)
  return `${beginningOf(head, Math.max(1, room - tail.length - 2))}… ${tail}`
}
