// Text for a terminal of 80 columns.

/** What a terminal shows in a line, unless somebody has made it wider. */
export const COLUMNS = 80

/** The text in lines that fit, broken between words; the first begins with `first`, the others with as many blanks. */
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

/** The text, no longer than `room`: what stands in parentheses at its end is kept whole, what stands before is cut. */
export function shortened(text: string, room: number): string {
  if (text.length <= room) return text
  // What it is stands at its beginning, which one at its end.
  const tail = text.slice(text.lastIndexOf('('))
  const head = text.slice(0, text.length - tail.length - 1)
  return `${head.slice(0, Math.max(1, room - tail.length - 2))}… ${tail}`
}
