// The output of the benchmark: a table in Markdown, one line for machines.
import { loadavg } from 'node:os'
import { quantile, type Sample } from '../statistics.ts'
import { type Kill, type Measured, RESUMES_WITHIN_MS } from './measure.ts'
import type { PeersOptions } from './options.ts'
import type { Row } from './rows.ts'

const COLUMNS = 8

/** A row, measured, or the reason why it could not be. */
export type Outcome = { row: Row; versions: string[] } & ({ measured: Measured } | { failed: string })

/** All rows, and under which circumstances they were measured. */
export interface Run {
  date: string
  servers: string[]
  options: PeersOptions
  outcomes: Outcome[]
}

/** The table, and below it settings and versions. */
export function report(run: Run): string {
  const { turns } = run.options
  const heads = [
    '',
    'ms a turn',
    'of the bare loop',
    `turn ${turns} / turn 10`,
    `bytes for ${turns} turns`,
    'kill → tool again, s',
    'kill → next model call, s',
    'effect happened',
  ]
  return [
    `| ${heads.join(' | ')} |`,
    `|${'---|'.repeat(COLUMNS)}`,
    ...run.outcomes.map(lineOf),
    '',
    circumstancesOf(run),
    '',
    '| | versions | settings | what an application must write to resume |',
    '|---|---|---|---|',
    ...run.outcomes.map(({ row, versions }) => `| ${row.title} | ${versions.join(', ')} | ${row.settings} | ${row.recovery} |`),
  ].join('\n')
}

/** The table's line for a row. */
export const lineOf = (outcome: Outcome): string => `| ${cellsOf(outcome).join(' | ')} |`

/** One sentence: when and with what. */
export function circumstancesOf({ date, servers, options }: Run): string {
  const { turns, rounds, kills, resultBytes } = options
  const load = loadavg()[0]?.toFixed(1)
  return `${date}: ${rounds} rounds of ${turns} turns, ${resultBytes} bytes a result, ${kills} kills; ${servers.join(', ')}; load average ${load}.`
}

/** The line that `--json` prints. */
export function jsonLine({ date, servers, outcomes }: Run): string {
  const rows = outcomes.map((outcome) => {
    const { row, versions } = outcome
    return { title: row.title, versions, ...('measured' in outcome ? { ...outcome.measured } : { failed: outcome.failed }) }
  })
  return JSON.stringify({ bench: 'peers', date, servers, rows })
}

function cellsOf(outcome: Outcome): string[] {
  const { title } = outcome.row
  if ('failed' in outcome) return [title, `not measured: ${errorIn(outcome.failed)}`, ...Array<string>(COLUMNS - 2).fill('')]
  const { msPerTurn, ratio, growth, bytes, kills, toolKills } = outcome.measured
  const both = (cell: (all: readonly Kill[]) => string) =>
    toolKills.length === 0 ? cell(kills) : `${cell(kills)}; ${cell(toolKills)} if only the tool's process dies`
  return [
    title,
    withNoise(msPerTurn),
    ratio.median.toFixed(2),
    growth?.toFixed(2) ?? '',
    Math.round(bytes).toLocaleString('en'),
    both((all) => timeOf(all, ({ toolAgain }) => toolAgain, 'not entered again')),
    both((all) => timeOf(all, ({ nextModel }) => nextModel, `not within ${RESUMES_WITHIN_MS / 1_000} s`)),
    both(effectsOf),
  ]
}

const withNoise = ({ median, noise }: Sample): string => `${median.toFixed(1)} ± ${(noise * 100).toFixed(0)} %`

function timeOf(kills: readonly Kill[], of: (kill: Kill) => number | undefined, never: string): string {
  const times = kills.flatMap((kill) => of(kill) ?? [])
  if (times.length === 0) return never
  const missing = kills.length - times.length
  return `${(quantile(times, 0.5) / 1_000).toFixed(2)}${missing > 0 ? ` (${never} after ${missing} of ${kills.length} kills)` : ''}`
}

/** How often the effect of the interrupted call happened, and whether calls that had finished ran again. */
function effectsOf(kills: readonly Kill[]): string {
  const counts = [...new Set(kills.map(({ effects }) => effects))].toSorted((a, b) => a - b)
  const again = kills.reduce((sum, { finishedAgain }) => sum + finishedAgain, 0)
  const times = `${counts.join(' or ')} ${counts.length === 1 && counts[0] === 1 ? 'time' : 'times'}`
  return again === 0 ? times : `${times}; ${again} finished calls ran again`
}

/** The line of a program's last words that names the error. */
function errorIn(text: string): string {
  const all = text.split('\n')
  return (all.find((line) => /^\w*Error\b/.test(line)) ?? all[0] ?? '').trim().replaceAll('|', '/')
}
