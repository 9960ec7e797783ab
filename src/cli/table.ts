// Tables for a terminal: they fit its width, times are ages, and statuses have colours.
import { durationText } from '../session/duration.ts'
import { oneLine, paint, type Style } from './terminal.ts'

/** A column: its heading and its cells. */
export interface Column<T> {
  name: string
  of(row: T): string | number | Date | null
  /** Aligned to the right, for numbers. */
  right?: true
  /** Whether the column is never cut off, because it has an id, which people copy, or the subject of the table. */
  whole?: true
  /** Omitted if the table does not fit: the last optional column first. */
  optional?: true
  /** Shown in the colour of the status that it names. */
  status?: true
}

export interface TableOptions {
  /** The width in columns. Default: the terminal's; without a terminal, `COLUMNS` or 100. */
  width?: number
  /** Whether to show everything: nothing is cut off or left out, and times are exact. */
  wide?: boolean | undefined
  /** Default: now. */
  now?: number
}

const GAP = '  '
const MIN_LAST = 20
/** Cells before the last one are cut off beyond this. */
const MAX_CELL = 32
const DEFAULT_WIDTH = 100
/** Even a wide table cuts off very long cells. */
const UNBOUNDED = 400
const DAY_MS = 86_400_000
/** Beyond this age, a date is more useful. */
const OLD_MS = 60 * DAY_MS

/** The lines of a table, headings first; without rows, only the headings. */
export function linesOfTable<T>(columns: readonly Column<T>[], rows: readonly T[], options: TableOptions = {}): string[] {
  const { wide = false, now = Date.now() } = options
  const width = wide ? UNBOUNDED * columns.length : (options.width ?? terminalWidth())
  const fitting = fit(
    columns.map((column, index) => {
      const isLast = index === columns.length - 1
      const max = wide || column.whole || isLast ? UNBOUNDED : MAX_CELL
      const cells = rows.map((row) => oneLine(textOf(column.of(row), wide, now), max))
      return { column, cells, isLast, width: Math.max(lengthOf(column.name), ...cells.map(lengthOf)) }
    }),
    width,
  )
  const headings = fitting.map((one) => padded(one.column.name, one)).join(GAP)
  const lines = rows.map((_, row) => fitting.map((one) => cellOf(one, one.cells[row] ?? '')).join(GAP))
  return [paint('dim', headings.trimEnd()), ...lines.map((line) => line.trimEnd())]
}

interface FittedColumn<T> {
  column: Column<T>
  cells: string[]
  isLast: boolean
  width: number
}

/** Omits optional columns until the last column has room, which then gets the remaining width. */
function fit<T>(all: FittedColumn<T>[], width: number): FittedColumn<T>[] {
  let shown = all
  const before = (): number => shown.slice(0, -1).reduce((sum, one) => sum + one.width + GAP.length, 0)
  const needed = (): number => before() + Math.min(shown.at(-1)?.width ?? 0, MIN_LAST)
  for (;;) {
    const next = needed() > width ? shown.findLastIndex(({ column }) => column.optional) : -1
    if (next === -1) break
    shown = shown.filter((_, index) => index !== next)
  }
  const room = Math.max(width - before(), MIN_LAST)
  return shown.map((one, index) => (index === shown.length - 1 ? { ...one, width: Math.min(one.width, room) } : one))
}

function cellOf<T>(one: FittedColumn<T>, text: string): string {
  const cell = padded(oneLine(text, one.width), one)
  const style = one.column.status && styleOf(text)
  return style ? paint(style, cell) : cell
}

function padded<T>(text: string, { width, column }: FittedColumn<T>): string {
  const space = ' '.repeat(Math.max(0, width - lengthOf(text)))
  return column.right ? space + text : text + space
}

function textOf(value: string | number | Date | null, wide: boolean, now: number): string {
  if (value === null) return '-'
  if (!(value instanceof Date)) return String(value)
  return wide ? `${value.toISOString().slice(0, 19)}Z` : ageText(value.getTime(), now)
}

/** How far away a time is, in its largest unit: `5 min ago`, `in 2 h`; the date if it is months away. */
export function ageText(at: number, now = Date.now()): string {
  const distance = Math.abs(at - now)
  if (distance >= OLD_MS) return new Date(at).toISOString().slice(0, 10)
  if (distance < 1_000) return 'now'
  const age = durationText(distance).split(' ').slice(0, 2).join(' ')
  return at > now ? `in ${age}` : `${age} ago`
}

/** Colours by the first word of a status: red needs attention, yellow is waiting, green is done. */
const STYLES: Record<string, Style> = {
  ...styled('red', 'error', 'failed', 'unknown', 'fail', 'rejected', 'no'),
  ...styled(
    'yellow',
    'waiting',
    'awaiting_approval',
    'awaiting_answer',
    'asleep',
    'awaiting_resolution',
    'interrupted',
    'warn',
    'denied',
    'loading',
  ),
  ...styled('green', 'completed', 'ok', 'done', 'yes'),
  ...styled('cyan', 'running', 'issued', 'in_progress'),
  ...styled('dim', 'closed', 'idle', 'pending', 'superseded'),
}

function styled(style: Style, ...names: string[]): Record<string, Style> {
  return Object.fromEntries(names.map((name) => [name, style]))
}

function styleOf(text: string): Style | undefined {
  return STYLES[/^\w+/.exec(text)?.[0] ?? '']
}

/** The width of the terminal; without one, `COLUMNS` of the environment or `otherwise`. */
export function terminalWidth(otherwise = DEFAULT_WIDTH): number {
  const given = process.stdout.columns ?? Number(process.env.COLUMNS)
  return given > 0 ? given : otherwise
}

function lengthOf(text: string): number {
  return Array.from(text).length
}
