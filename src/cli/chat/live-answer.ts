// An answer in the terminal while the model streams it: full rows are printed permanently, and the last row grows above the prompt.
import { printable } from '../terminal.ts'

/** Rows to print, and the one that still grows. */
export interface LiveRows {
  rows: string[]
  growing: string
}

/** An answer in progress. */
export interface LiveAnswer {
  /** Adds text that the model has streamed; returns what to show. */
  add(text: string): LiveRows
  /**
   * Returns the rows that complete the answer; undefined if the answer does not begin with what was shown, so all of it has to be shown.
   */
  complete(text: string): string[] | undefined
  /** Discards the partial answer; returns whether rows of it were printed permanently. */
  reset(): boolean
}

/** An answer that begins with `speaker`, in rows of fewer than `columns()` columns. */
export function liveAnswer(speaker: string, columns: () => number): LiveAnswer {
  let said = ''
  let growing = speaker
  let printed = 0

  function add(text: string): LiveRows {
    said += text
    // Each line break in the text ends a row.
    const [first = '', ...others] = printable(text).split('\n')
    const rows: string[] = []
    growing += first
    for (const line of others) {
      rows.push(...full(), growing)
      growing = line
    }
    rows.push(...full())
    printed += rows.length
    return { rows, growing }
  }

  /** Removes the full rows from the growing one, and returns them. */
  function full(): string[] {
    const rows: string[] = []
    for (const room = Math.max(20, columns()) - 1; widthOf(growing) > room; ) {
      const cut = breakOf(growing, room)
      rows.push(growing.slice(0, cut).trimEnd())
      growing = growing.slice(cut)
    }
    return rows
  }

  function reset(): boolean {
    const wasPrinted = printed > 0
    said = ''
    growing = speaker
    printed = 0
    return wasPrinted
  }

  return {
    add,
    complete(text) {
      if (said === '' || !text.startsWith(said)) return undefined
      const { rows, growing: last } = add(text.slice(said.length))
      reset()
      return last.trim() === '' ? rows : [...rows, last]
    },
    reset,
  }
}

/** The index after the last space that fits, or the end of the room if no space fits. */
function breakOf(text: string, room: number): number {
  let width = 0
  let end = 0
  let space = 0
  for (const character of text) {
    width += widthOf(character)
    if (width > room) break
    end += character.length
    if (character === ' ') space = end
  }
  return space > 0 ? space : end
}

/** The maximum number of columns of a text: a character that may be wide counts as wide. */
function widthOf(text: string): number {
  let width = 0
  for (const character of text) width += character === '\t' ? 8 : (character.codePointAt(0) ?? 0) < 0x11_00 ? 1 : 2
  return width
}
