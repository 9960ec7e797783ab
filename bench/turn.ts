// `npm run bench -- turn`: what a turn costs in pawl, against a bare Temporal loop of the same two activities, in one run.
import { loadavg } from 'node:os'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { sampleOf } from './statistics.ts'
import { bundleFloor } from './turn/floor-bundle.ts'
import { turnsOf } from './turn/history.ts'
import { readTurnOptions, type TurnOptions } from './turn/options.ts'
import { head, type HistoryBytesPerTurn, historyLines, jsonLine, type Measured, row } from './turn/report.ts'
import { AGENT, type Effect, MODEL_ACTIVITY, TASK_QUEUE } from './turn/work.ts'
import { startSupervised, startWorkers, type Stop, type WorkerSetting } from './turn/workers.ts'

type Side = 'floor' | 'pawl'
type Setup = Pick<Measured, 'processes' | 'eager' | 'workers'>

/** The set-up of the long session. */
const HEADLINE: Setup = { processes: 1, eager: 'on', workers: 'unsupervised' }
const SETUPS: readonly Setup[] = [
  HEADLINE,
  { processes: 1, eager: 'off', workers: 'unsupervised' },
  { processes: 1, eager: 'on', workers: 'supervised' },
  { processes: 3, eager: 'on', workers: 'unsupervised' },
  { processes: 3, eager: 'off', workers: 'unsupervised' },
  { processes: 3, eager: 'on', workers: 'supervised' },
]
/** Turns before anything is measured: they compile code, fill caches, and prove that the tool is quick. */
const WARM_UP_TURNS = 30
/** Sessions at once that warm up each process: they are spread over all of them. */
const WARM_UP_SESSIONS = 2

interface Bench {
  client: Client
  /** Runs a workflow of this many turns to its end, and returns its id. */
  runTurns: Record<Side, (turns: number) => Promise<string>>
  settings: Record<Setup['eager'], WorkerSetting>
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const options = readTurnOptions(args)
  // With --json, the machine-readable line is the only one on standard output.
  const say = (line: string) => void (options.output === 'json' ? process.stderr : process.stdout).write(`${line}\n`)
  process.env.BENCH_RESULT_BYTES = String(options.resultBytes)
  await withBench(async (bench) => {
    say(
      `${options.rounds} rounds of ${options.turns} turns, ${options.resultBytes} bytes a result; median ± half the distance of the quartiles`,
    )
    const measured = new Map<Effect, Measured[]>()
    for (const effect of options.effects) {
      say(`\na tool with the effect ${effect}\n${head()}`)
      process.env.BENCH_EFFECT = effect
      const ofEffect: Measured[] = []
      measured.set(effect, ofEffect)
      for (const setup of SETUPS) {
        const one = await measure(bench, setup, options)
        ofEffect.push(one)
        say(row(one))
      }
    }
    process.env.BENCH_EFFECT = options.effects[0]
    const bytes = await historyBytes(bench, options)
    for (const line of ['', ...historyLines(bytes), `load average ${loadavg()[0]?.toFixed(1)}`]) say(line)
    if (options.output === 'json') process.stdout.write(`${jsonLine(measured, bytes)}\n`)
  })
}

/** Measures one set-up: rounds of both sides, which take turns at going first. */
async function measure(bench: Bench, setup: Setup, { rounds, turns }: TurnOptions): Promise<Measured> {
  return withWorkers(bench, setup, async () => {
    const times: Record<Side, number[]> = { floor: [], pawl: [] }
    for (const side of ['floor', 'pawl'] as const) await warmUp(bench, side, setup)
    for (let round = 0; round < rounds; round += 1) {
      for (const side of round % 2 === 0 ? (['floor', 'pawl'] as const) : (['pawl', 'floor'] as const)) {
        times[side].push(await msPerTurn(bench, side, turns))
      }
    }
    const ratios = times.pawl.map((time, round) => time / (times.floor[round] ?? Number.NaN))
    return { ...setup, floor: sampleOf(times.floor), pawl: sampleOf(times.pawl), ratio: sampleOf(ratios) }
  })
}

async function warmUp({ runTurns }: Bench, side: Side, { processes }: Setup): Promise<void> {
  await Promise.all(Array.from({ length: processes * WARM_UP_SESSIONS }, () => runTurns[side](WARM_UP_TURNS)))
}

/** Milliseconds from one turn's beginning to the next, by the server's own clock, which is the same for both sides. */
async function msPerTurn({ client, runTurns }: Bench, side: Side, turns: number): Promise<number> {
  const begins = await turnsOf(client, await runTurns[side](turns), MODEL_ACTIVITY[side])
  const [first, last] = [begins[0], begins[turns]]
  if (!first || !last) throw new Error(`A run of ${turns} turns of the ${side} has ${begins.length} model calls instead of ${turns + 1}.`)
  return (last.atMs - first.atMs) / turns
}

/** Bytes of history per turn in a long session, by stages, including what each continue-as-new carries over. */
async function historyBytes(bench: Bench, { historyTurns }: TurnOptions): Promise<HistoryBytesPerTurn> {
  const workflowId = await withWorkers(bench, HEADLINE, async () => {
    await warmUp(bench, 'pawl', HEADLINE)
    return bench.runTurns.pawl(historyTurns)
  })
  const begins = await turnsOf(bench.client, workflowId, MODEL_ACTIVITY.pawl)
  const between = (from: number, to: number) => {
    const [first, last] = [begins[from], begins[to]]
    if (!first || !last) throw new Error(`The long session has ${begins.length} model calls, too few to measure up to turn ${to}.`)
    return { all: (last.bytesBefore - first.bytesBefore) / (to - from), carried: (last.carriedBefore - first.carriedBefore) / (to - from) }
  }
  return { '10': between(0, 10), '100': between(10, 100), '1000': between(100, 1_000) }
}

async function withWorkers<T>({ settings }: Bench, { processes, eager, workers }: Setup, use: () => Promise<T>): Promise<T> {
  const setting = settings[eager]
  const stops: Stop[] = []
  try {
    stops.push(await startWorkers('floor', processes, setting))
    stops.push(await (workers === 'supervised' ? startSupervised(processes, setting) : startWorkers('pawl', processes, setting)))
    return await use()
  } finally {
    await Promise.all(stops.map((stop) => stop()))
  }
}

async function withBench(use: (bench: Bench) => Promise<void>): Promise<void> {
  const endings: (() => Promise<unknown>)[] = []
  const ending = <T>(made: T, end: (made: T) => Promise<unknown>): T => {
    endings.unshift(() => end(made))
    return made
  }
  try {
    const stack = ending(await startStack(), ({ stop }) => stop())
    const { temporalAddress: address, namespace, databaseUrl } = stack
    const bundles = ending(await bundleFloor(), ({ remove }) => remove())
    const connection = ending(await Connection.connect({ address }), (one) => one.close())
    const client = new Client({ connection, namespace })
    const pawl = ending(await Pawl.connect({ temporal: client, taskQueue: TASK_QUEUE.pawl, postgres: databaseUrl }), (one) => one.close())
    const setting = { address, namespace, databaseUrl }
    await use({
      client,
      runTurns: { floor: (turns) => runFloor(client, turns), pawl: (turns) => runPawl(pawl, turns) },
      settings: { on: { ...setting, eager: 'on', floorBundle: bundles.on }, off: { ...setting, eager: 'off', floorBundle: bundles.off } },
    })
  } finally {
    for (const end of endings) await end()
  }
}

async function runFloor(client: Client, turns: number): Promise<string> {
  const workflowId = `floor-${crypto.randomUUID()}`
  await client.workflow.execute('floor', { workflowId, taskQueue: TASK_QUEUE.floor, args: [workflowId, turns] })
  return workflowId
}

async function runPawl(pawl: Pawl, turns: number): Promise<string> {
  const session = pawl.session(undefined, { agent: AGENT })
  const handle = await session.send(String(turns))
  await handle.result()
  return `pawl:${session.id}`
}
