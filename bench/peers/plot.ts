// The plot of the benchmark: bars on logarithmic scales, as SVG.
import { quantile } from '../statistics.ts'
import type { Measured } from './measure.ts'
import { circumstancesOf, type Outcome, type Run } from './report.ts'

interface Panel {
  title: string
  of: (measured: Measured) => number | undefined
  label: (value: number, measured: Measured) => string
}

const NAME_WIDTH = 215
const PANEL_WIDTH = 250
/** Room for the label after a bar that is as long as its panel. */
const LABEL_WIDTH = 90
const ROW_HEIGHT = 22
const BAR_HEIGHT = 14
const HEAD_HEIGHT = 62
const NOTE_HEIGHT = 15
/** Room for the last panel's title and labels, which are longer. */
const LAST_WIDTH = 90
const WIDTH = NAME_WIDTH + 3 * (PANEL_WIDTH + LABEL_WIDTH) + LAST_WIDTH
const NOTE_LENGTH = 190
const COLOURS = { pawl: '#2f6f4f', temporal: '#8a8a8a', other: '#9db4c0' }

const short = new Intl.NumberFormat('en', { notation: 'compact', maximumSignificantDigits: 3 })

const panels = (turns: number): Panel[] => [
  { title: 'ms a turn', of: ({ msPerTurn }) => msPerTurn.median, label: (value) => value.toFixed(1) },
  { title: `bytes stored for ${turns} turns`, of: ({ bytes }) => bytes, label: (value) => short.format(value) },
  {
    title: "s from a worker's SIGKILL in a tool to the next model call",
    of: ({ kills }) => {
      const times = kills.flatMap(({ nextModel }) => nextModel ?? [])
      return times.length > 0 ? quantile(times, 0.5) / 1_000 : undefined
    },
    label: (value, { kills }) => `${value.toFixed(2)}, effect ${Math.max(...kills.map(({ effects }) => effects))}×`,
  },
]

/** Draws all rows. */
export function plot(run: Run): string {
  const { outcomes } = run
  const notes = notesOf(run)
  const bottom = HEAD_HEIGHT + outcomes.length * ROW_HEIGHT
  const height = bottom + 18 + notes.length * NOTE_HEIGHT
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" font-family="system-ui, sans-serif" font-size="12">`,
    `<rect width="${WIDTH}" height="${height}" fill="#ffffff"/>`,
    text(12, 22, 'One conversation in several durable runtimes', 'font-size="15" font-weight="600"'),
    ...outcomes.map(({ row }, index) => text(12, HEAD_HEIGHT + index * ROW_HEIGHT + 11, row.title.replaceAll('`', ''))),
    ...panels(run.options.turns).flatMap((panel, index) => bars(panel, NAME_WIDTH + index * (PANEL_WIDTH + LABEL_WIDTH), outcomes)),
    ...notes.map((note, index) => text(12, bottom + 20 + index * NOTE_HEIGHT, note, 'font-size="10.5" fill="#555555"')),
    '</svg>',
    '',
  ].join('\n')
}

/** One panel. Its bars begin at the power of ten below the smallest value. */
function bars({ title, of, label }: Panel, left: number, outcomes: readonly Outcome[]): string[] {
  const values = outcomes.map((outcome) => ('measured' in outcome ? of(outcome.measured) : undefined))
  const known = values.filter((value) => value !== undefined && value > 0) as number[]
  if (known.length === 0) return []
  const from = Math.floor(Math.log10(Math.min(...known)))
  const to = Math.max(Math.log10(Math.max(...known)), from + 1)
  const xOf = (value: number) => left + (PANEL_WIDTH * (Math.log10(value) - from)) / (to - from)
  const bottom = HEAD_HEIGHT + outcomes.length * ROW_HEIGHT
  const ticks = Array.from({ length: Math.floor(to) - from + 1 }, (_, index) => 10 ** (from + index))
  return [
    text(left, 42, title, 'font-weight="600"'),
    ...ticks.flatMap((tick) => [
      `<line x1="${round(xOf(tick))}" x2="${round(xOf(tick))}" y1="${HEAD_HEIGHT - 4}" y2="${bottom}" stroke="#e4e4e4"/>`,
      text(round(xOf(tick)), HEAD_HEIGHT - 7, short.format(tick), 'font-size="9.5" fill="#777777" text-anchor="middle"'),
    ]),
    ...outcomes.flatMap((outcome, index) => {
      const y = HEAD_HEIGHT + index * ROW_HEIGHT
      const value = values[index]
      if (!('measured' in outcome)) return [text(left, y + 11, 'not measured', 'fill="#999999"')]
      if (value === undefined || value <= 0) return [text(left, y + 11, value === 0 ? 'none' : 'never', 'fill="#999999"')]
      const end = Math.max(xOf(value), left + 1)
      const colour = COLOURS[outcome.row.peer as keyof typeof COLOURS] ?? COLOURS.other
      return [
        `<rect x="${left}" y="${y}" width="${round(end - left)}" height="${BAR_HEIGHT}" fill="${colour}"/>`,
        text(round(end + 4), y + 11, label(value, outcome.measured), 'font-size="11"'),
      ]
    }),
  ]
}

/** The circumstances and all versions, in lines that fit. */
function notesOf(run: Run): string[] {
  const versions = [...new Set(run.outcomes.flatMap(({ versions: all }) => all))]
  const settings = run.outcomes.map(({ row }) => `${row.title}: ${row.settings}`)
  return [circumstancesOf(run), `${versions.join(', ')}.`, ...settings].map((note) => note.replaceAll('`', '')).flatMap(lines)
}

function lines(note: string): string[] {
  const all = ['']
  for (const word of note.split(' ')) {
    const last = all.at(-1) ?? ''
    if (last.length + word.length < NOTE_LENGTH) all[all.length - 1] = last === '' ? word : `${last} ${word}`
    else all.push(word)
  }
  return all
}

const text = (x: number, y: number, content: string, attributes = ''): string =>
  `<text x="${x}" y="${y}" ${attributes}>${content.replaceAll('&', '&amp;').replaceAll('<', '&lt;')}</text>`

const round = (value: number): number => Math.round(value * 10) / 10
