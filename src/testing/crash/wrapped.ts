// Text for a terminal: lines that fit, without breaking a word.

/** The usual width of a terminal. */
export const COLUMNS = 80

/**
 * The text in lines that fit, broken between words. The first line begins with `first`, the others with `rest`: by default, as many spaces.
 * A word that is longer than a line stays whole.
 */
export function wrapped(text: string, options: { first?: string | undefined; rest?: string; columns?: number } = {}): string[] {
  const { first = '', rest = ' '.repeat(first.length), columns = COLUMNS } = options
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= columns) lines[lines.length - 1] = `${last} ${word}`
    else lines.push(`${lines.length === 0 ? first : rest}${word}`)
  }
  return lines
}
