// The output of the benchmark: a table for people, one line for machines.
import type { Sample } from '../statistics.ts'
import type { Effect } from './work.ts'

/** One set-up, measured: milliseconds per turn. */
export interface Measured {
  processes: number
  eager: 'on' | 'off'
  workers: 'unsupervised' | 'supervised'
  floor: Sample
  pawl: Sample
  /** Of the rounds' own ratios. */
  ratio: Sample
}

/** Bytes of history per turn, from the stage before up to this many turns. */
export type HistoryBytesPerTurn = Record<'10' | '100' | '1000', { all: number; carried: number }>

/** One line of the table. */
export function row({ processes, eager, workers, floor, pawl, ratio }: Measured): string {
  const cells = [`${processes}`, eager, workers, timeOf(floor), timeOf(pawl), `${ratio.median.toFixed(2)} ± ${ratio.noise.toFixed(2)}`]
  return cells
    .map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0))
    .join('  ')
    .trimEnd()
}

const HEADS = ['processes', 'eager', 'workers', 'floor ms/turn', 'pawl ms/turn', 'ratio']
const WIDTHS = [9, 5, 12, 14, 14, 12]

/** The table's first line. */
export const head = (): string =>
  HEADS.map((name, index) => name.padEnd(WIDTHS[index] ?? 0))
    .join('  ')
    .trimEnd()

const timeOf = ({ median, noise }: Sample): string => `${median.toFixed(1)} ± ${(noise * 100).toFixed(0)} %`

/** The lines about the history. */
export function historyLines(bytes: HistoryBytesPerTurn): string[] {
  const stages = Object.entries(bytes).map(
    ([turns, { all, carried }]) =>
      `  up to turn ${turns.padEnd(5)} ${Math.round(all)}, of which ${Math.round(carried)} carried over by continue-as-new`,
  )
  return ['history bytes a turn:', ...stages, `  at 1,000 turns ${(bytes['1000'].all / bytes['10'].all).toFixed(3)} of what it is at 10`]
}

/** The line that `--json` prints: the ratios of each effect by set-up, and the history of a session whose tool has the first effect. */
export function jsonLine(measured: ReadonlyMap<Effect, readonly Measured[]>, bytes: HistoryBytesPerTurn): string {
  const ratiosOf = (all: readonly Measured[]) =>
    Object.fromEntries(all.map(({ processes, eager, workers, ratio }) => [`${processes} ${eager} ${workers}`, round(ratio.median, 3)]))
  return JSON.stringify({
    ratios: Object.fromEntries([...measured].map(([effect, all]) => [effect, ratiosOf(all)])),
    historyBytesPerTurn: Object.fromEntries(Object.entries(bytes).map(([turns, { all }]) => [turns, Math.round(all)])),
  })
}

const round = (value: number, digits: number): number => Number(value.toFixed(digits))
