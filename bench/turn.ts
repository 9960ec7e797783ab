// `npm run bench -- turn`: what a turn costs in pawl, against a bare Temporal loop of the same two activities, in one run.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Client, Connection } from '@temporalio/client'
import { bundleWorkflowCode } from '@temporalio/worker'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { sampleOf } from './statistics.ts'
import { turnsOf } from './turn/history.ts'
import { readTurnOptions, type TurnOptions } from './turn/options.ts'
import { head, type HistoryBytesPerTurn, historyLines, jsonLine, type Measured, row } from './turn/report.ts'
import { startSupervised, startWorkers, type Stop, type WorkerSetting } from './turn/workers.ts'
import { TASK_QUEUE } from './turn/work.ts'

/** The set-ups, the first of which is the one that the ratio is said of. */
const SETUPS: readonly Pick<Measured, 'processes' | 'eager' | 'workers'>[] = [
  { processes: 1, eager: 'on', workers: 'unsupervised' },
  { processes: 1, eager: 'off', workers: 'unsupervised' },
  { processes: 1, eager: 'on', workers: 'supervised' },
  { processes: 3, eager: 'on', workers: 'unsupervised' },
  { processes: 3, eager: 'off', workers: 'unsupervised' },
  { processes: 3, eager: 'on', workers: 'supervised' },
]
/** Turns before anything is measured: code is compiled, caches are filled. */
const WARM_UP_TURNS = 30

/** Runs one workflow of so many turns to its end, and says what it is called. */
type RunTurns = (turns: number) => Promise<string>

interface Bench {
  options: TurnOptions
  client: Client
  setting: Omit<WorkerSetting, 'eager' | 'floorBundle'>
  bundles: Record<'on' | 'off', string>
  floor: RunTurns
  pawl: RunTurns
  say(line: string): void
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const options = readTurnOptions(args)
  // The machine's line is the only one on standard output.
  const say = (line: string) => void (options.output === 'json' ? process.stderr : process.stdout).write(`${line}\n`)
  process.env.BENCH_RESULT_BYTES = String(options.resultBytes)
  await using endings = new AsyncDisposableStack()
}

/** Measures one set-up: rounds of both sides, taking turns at going first. */
async function measure(bench: Bench, setup: (typeof SETUPS)[number]): Promise<Measured> {
  return withWorkers(bench, setup, async () => {
    const times = { floor: [] as number[], pawl: [] as number[] }
    for (const side of ['floor', 'pawl'] as const) await bench[side](WARM_UP_TURNS)
    for (let round = 0; round < bench.options.rounds; round += 1) {
      const order = round % 2 === 0 ? (['floor', 'pawl'] as const) : (['pawl', 'floor'] as const)
      for (const side of order) times[side].push(await msPerTurn(bench, side))
    }
    const ratios = times.pawl.map((time, round) => time / (times.floor[round] ?? Number.NaN))
    return { ...setup, floor: sampleOf(times.floor), pawl: sampleOf(times.pawl), ratio: sampleOf(ratios) }
  })
}
