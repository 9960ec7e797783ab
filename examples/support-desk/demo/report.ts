// The final report, measured from the shop's own tables, the supervisor's events and Temporal's numbers.
import type { Pool } from 'pg'
import type { LedgerSummary } from '../shop/database.ts'
import { readLedger, readState } from '../shop/database.ts'
import type { Effect } from '../shop/records.ts'
import type { EffectCount } from '../world/expected.ts'
import { countEffects, differences, expectedState } from '../world/expected.ts'
import type { World } from '../world/tickets.ts'
import type { Worked } from './desk.ts'

/** The report as `--json` prints it. */
export interface Report {
  tickets: number
  /** Answered completely, with every effect that the ticket must have. */
  solved: number
  kills: number
  effects: { expected: number; applied: number; duplicates: number }
  finalStateMatches: boolean
  /** Milliseconds from the death of a process to the moment its call runs again; null if nothing had to. */
  resumeMs: { p50: number | null; p99: number | null; count: number }
  historyBytesPerTurn: number
  seed: number
}

/** The report and what a person wants to know besides. */
export interface FullReport {
  report: Report
  /** `passed`: every ticket solved, every effect once, the shop as expected, as many kills as asked for. */
  verdict: 'passed' | 'failed'
  /** What is wrong, one line each. */
  problems: string[]
  ledger: LedgerSummary
  turns: number
  seconds: number
}

export interface Measured {
  world: World
  worked: readonly Worked[]
  kills: { asked: number; made: number }
  resumeMs: readonly number[]
  historyBytes: number
  seconds: number
  shop: Pool
}

/** Reads the shop's tables and compares them with the expected state. */
export async function makeReport(measured: Measured): Promise<FullReport> {
  const { world, worked, kills } = measured
  const [state, ledger] = [await readState(measured.shop), await readLedger(measured.shop)]
  const effects = countEffects(
    world.tickets.flatMap((ticket) => ticket.expected),
    state.effects,
  )
  const lines = differences(expectedState(world), state)
  const missing = new Set(effects.missing)
  const solved = worked.filter(({ ticket, failure }) => failure === undefined && !ticket.expected.some((effect) => missing.has(effect)))
  const turns = worked.reduce((sum, one) => sum + one.turns, 0)
  const problems = problemsOf({ worked, kills, effects, differences: lines })
  return {
    report: {
      tickets: world.tickets.length,
      solved: solved.length,
      kills: kills.made,
      effects: { expected: effects.expected, applied: effects.applied, duplicates: effects.duplicates },
      finalStateMatches: lines.length === 0,
      resumeMs: { p50: percentile(measured.resumeMs, 50), p99: percentile(measured.resumeMs, 99), count: measured.resumeMs.length },
      historyBytesPerTurn: turns > 0 ? Math.round(measured.historyBytes / turns) : 0,
      seed: world.seed,
    },
    verdict: problems.length === 0 ? 'passed' : 'failed',
    problems,
    ledger,
    turns,
    seconds: measured.seconds,
  }
}

function problemsOf(found: { worked: readonly Worked[]; kills: Measured['kills']; effects: EffectCount; differences: string[] }): string[] {
  const { kills, effects } = found
  const said = (what: string) => (effect: Effect) => `${what}: ${JSON.stringify(effect)}`
  return [
    ...found.worked.flatMap(({ ticket, failure }) => (failure === undefined ? [] : [`${ticket.id} is not solved: ${failure}`])),
    ...(kills.made < kills.asked ? [`only ${kills.made} of ${kills.asked} kills could be made`] : []),
    ...effects.missing.map(said('not applied')),
    ...effects.unexpected.map(said('applied, but not expected')),
    ...(effects.duplicates > 0 ? [`effects applied more than once: ${effects.duplicates}`] : []),
    ...found.differences,
  ]
}

/** The nearest-rank percentile, rounded; null of no values. */
export function percentile(values: readonly number[], percent: number): number | null {
  const sorted = [...values].sort((a, b) => a - b)
  const value = sorted[Math.max(0, Math.ceil((percent / 100) * sorted.length) - 1)]
  return value === undefined ? null : Math.round(value)
}

/** The report for people, one line a figure. */
export function reportLines({ report, ledger, verdict, problems, turns, seconds }: FullReport): string[] {
  const { effects, resumeMs } = report
  const rows: [string, string][] = [
    ['tickets solved', `${report.solved} of ${report.tickets}, ${turns} turns, ${seconds.toFixed(1)} s`],
    ['worker processes killed', `${report.kills}`],
    ['effects expected', `${effects.expected}`],
    ['effects applied', `${effects.applied}`],
    ['effects applied twice', `${effects.duplicates}`],
    ['final state of the shop', report.finalStateMatches ? 'as expected' : 'NOT as expected'],
    [
      'requests the shop received',
      `${ledger.requests}; ${ledger.replayed} ${ledger.replayed === 1 ? 'repeat' : 'repeats'} recognised by key, ${ledger.unchanged} changed nothing`,
    ],
    ['late effects', `${ledger.appliedUnheard} applied after the worker that requested it had died`],
    [
      'from crash to resume',
      resumeMs.count > 0 ? `p50 ${resumeMs.p50} ms, p99 ${resumeMs.p99} ms, over ${resumeMs.count} calls` : 'no call had to be resumed',
    ],
    ['history per turn', `${report.historyBytesPerTurn} bytes`],
    ['seed', `${report.seed}`],
  ]
  const width = Math.max(...rows.map(([name]) => name.length))
  return [
    ...rows.map(([name, value]) => `${name.padEnd(width)}  ${value}`),
    ...problems.map((problem) => `! ${problem}`),
    verdict === 'passed' ? 'Every effect exactly once.' : `Failed. Again with the same tickets and kills: --seed ${report.seed}`,
  ]
}
