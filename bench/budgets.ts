// `npm run bench -- budgets`: a turn of sessions that share a budget, against one of sessions that share none, on the same worker.
import { loadavg } from 'node:os'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { intervalOfMedian, quantile } from './statistics.ts'

const SIDES = ['alone', 'shared'] as const
type Side = (typeof SIDES)[number]
const TAG = 'shared'

/** Turns at the beginning of a session that are not measured. */
const WARM_UP_TURNS = 5
/** Turns in which code is compiled, and the batch is set aside. */
const FIRST_TURNS = 200
/** The goal is 2 %, so the median must be known to 1 %. */
const RESOLVED = 0.01
const FEWEST_ROUNDS = 15
/** The slowest turns of a round say more about the machine than about the turn. */
const KEPT = 0.9

/** Runs the benchmark: rounds of both sides, one after the other, until the ratio is known well enough. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { rounds: { type: 'string', default: '200' }, turns: { type: 'string', default: '40' } } })
  const [most, turns] = [Number(values.rounds), Number(values.turns)]
  const stack = await startStack()
  const at = { temporal: { address: stack.temporalAddress, namespace: stack.namespace }, postgres: stack.databaseUrl }
  const module = fileURLToPath(new URL('./budgets/agents.ts', import.meta.url))
  const supervisor = await superviseWorkers({ module, processes: 1, ...at })
  const pawl = await Pawl.connect(at)
  try {
    await supervisor.ready()
    await pawl.budgets.set({ tag: TAG, maxUsd: 1_000_000, per: 'day' })
    const times: Record<Side, number[]> = { alone: [], shared: [] }
    for (const side of SIDES) await msPerTurn(pawl, side, FIRST_TURNS)
    const ratios: number[] = []
    const isResolved = (): boolean => {
      const [low, high] = intervalOfMedian(ratios)
      return (high - low) / 2 <= RESOLVED
    }
    while (ratios.length < most && (ratios.length < FEWEST_ROUNDS || !isResolved())) {
      // They take turns at going first.
      for (const side of ratios.length % 2 === 0 ? SIDES : SIDES.toReversed()) times[side].push(await msPerTurn(pawl, side, turns))
      ratios.push((times.shared.at(-1) ?? Number.NaN) / (times.alone.at(-1) ?? Number.NaN))
    }
    for (const side of SIDES) console.log(`${side}: ${quantile(times[side], 0.5).toFixed(2)} ms a turn`)
    const [low, high] = intervalOfMedian(ratios)
    const text = isResolved() ? '' : '; too noisy to resolve 2 %: run more rounds, or with nothing else running'
    console.log(
      `ratio: ${quantile(ratios, 0.5).toFixed(3)}, 95 % between ${low.toFixed(3)} and ${high.toFixed(3)} (${ratios.length} rounds of ${turns} turns; load average ${loadavg()[0]?.toFixed(1)})${text}`,
    )
  } finally {
    await pawl.close()
    await supervisor.shutdown()
    await stack.stop()
  }
}

/** Milliseconds from one turn's beginning to the next, after the warm-up: the mean of all but the slowest. */
async function msPerTurn(pawl: Pawl, side: Side, turns: number): Promise<number> {
  const session = pawl.session(undefined, { agent: 'spender', tags: [side === 'shared' ? TAG : 'none'] })
  const run = await session.send(String(WARM_UP_TURNS + turns))
  await run.result()
  const begins: number[] = []
  for await (const event of session.events({ follow: false })) if (event.type === 'turn_started') begins.push(event.at)
  const measured = begins.slice(WARM_UP_TURNS)
  if (measured.length !== turns + 1) throw new Error(`The session has ${begins.length} turns instead of ${WARM_UP_TURNS + turns + 1}.`)
  const each = measured.slice(1).map((time, n) => time - (measured[n] ?? time))
  const kept = each.toSorted((a, b) => a - b).slice(0, Math.ceil(each.length * KEPT))
  return kept.reduce((sum, ms) => sum + ms, 0) / kept.length
}
