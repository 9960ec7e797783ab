// `npm run bench -- mind`: a turn of an agent with ten slices, three hooks and a plan of a hundred steps, against one without.
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import { sampleOf } from './statistics.ts'

const AGENTS = ['plain', 'mind'] as const
type Name = (typeof AGENTS)[number]

/** Turns at the beginning that are not measured: in them the plan is set up and code is compiled. */
const WARM_UP_TURNS = 20

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { rounds: { type: 'string', default: '5' }, turns: { type: 'string', default: '100' } } })
  const [rounds, turns] = [Number(values.rounds), Number(values.turns)]
  const stack = await startStack()
  const supervisor = await superviseWorkers({
    module: fileURLToPath(new URL('./mind/agents.ts', import.meta.url)),
    processes: 1,
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
  })
  const pawl = await Pawl.connect({
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
  })
  try {
    await supervisor.ready()
    const times: Record<Name, number[]> = { plain: [], mind: [] }
    for (const name of AGENTS) await msPerTurn(pawl, name, WARM_UP_TURNS + 10)
    for (let round = 0; round < rounds; round++) {
      // They take turns at going first.
      for (const name of round % 2 === 0 ? AGENTS : AGENTS.toReversed())
        times[name].push(await msPerTurn(pawl, name, WARM_UP_TURNS + turns))
    }
    const ratio = sampleOf(times.mind.map((ms, round) => ms / (times.plain[round] ?? Number.NaN)))
    for (const name of AGENTS) console.log(`${name}: ${sampleOf(times[name]).median.toFixed(1)} ms a turn`)
    console.log(`ratio: ${ratio.median.toFixed(2)} ± ${ratio.noise.toFixed(2)} (${rounds} rounds of ${turns} turns)`)
  } finally {
    await pawl.close()
    await supervisor.shutdown()
    await stack.stop()
  }
}

/** Milliseconds from one turn's beginning to the next, after the warm-up. */
async function msPerTurn(pawl: Pawl, agent: Name, turns: number): Promise<number> {
  const session = pawl.session(undefined, { agent })
  const run = await session.send(String(turns))
  await run.result()
  const begins: number[] = []
  for await (const event of session.events({ follow: false })) if (event.type === 'turn_started') begins.push(event.at)
  const [first, last] = [begins[WARM_UP_TURNS], begins[turns]]
  if (first === undefined || last === undefined)
    throw new Error(`The session of ${agent} has ${begins.length} turns instead of ${turns + 1}.`)
  return (last - first) / (turns - WARM_UP_TURNS)
}
