// Tables for a terminal: columns as wide as necessary, the last one cut off at the terminal's edge.
import { oneLine, paint } from './terminal.ts'

/** A column: its heading and its cells. */
export interface Column<T> {
  name: string
  of(row: T): string | number | null
  /** Aligned to the right, for numbers. */
  right?: true
}

const GAP = '  '
const MIN_LAST = 20
/** Width without a terminal: only very long cells are cut off. */
const UNBOUNDED = 400

/** The lines of a table, headings first; only the headings for no rows. */
export function linesOfTable<T>(columns: readonly Column<T>[], rows: readonly T[], width = process.stdout.columns ?? UNBOUNDED): string[] {
  const cells = rows.map((row) => columns.map((column) => oneLine(String(column.of(row) ?? '-'), UNBOUNDED)))
  const widths = columns.map((column, index) => Math.max(column.name.length, ...cells.map((line) => lengthOf(line[index] ?? ''))))
  const before = widths.slice(0, -1).reduce((sum, one) => sum + one + GAP.length, 0)
  const room = Math.max(width - before, MIN_LAST)
  const lineOf = (line: readonly string[]): string =>
    line.map((cell, index) => fitted(cell, index === line.length - 1 ? undefined : widths[index], columns[index]?.right, room)).join(GAP)
  return [paint('dim', lineOf(columns.map(({ name }) => name))), ...cells.map(lineOf)]
}

function fitted(cell: string, width: number | undefined, right: true | undefined, room: number): string {
  if (width === undefined) return oneLine(cell, room)
  const space = ' '.repeat(Math.max(0, width - lengthOf(cell)))
  return right ? space + cell : cell + space
}

function lengthOf(text: string): number {
  return Array.from(text).length
}
