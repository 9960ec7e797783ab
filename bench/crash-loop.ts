// `npm run bench -- crash-loop`: what sessions that keep killing their executors cost the other sessions of their worker.
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { quantile } from './statistics.ts'
import { startWorker } from './worker/start.ts'

// Each death logs a warning.
process.env.PAWL_LOG_LEVEL = 'error'
const TASK_QUEUE = 'bench-crash-loop'
/** The pause before a round, in which the work of the round before ends. */
const BETWEEN_MS = 3_000

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      healthy: { type: 'string', default: '200' },
      looping: { type: 'string', default: '10' },
      executors: { type: 'string', default: '3' },
      rounds: { type: 'string', default: '2' },
      seconds: { type: 'string', default: '40' },
    },
  })
  const [healthy, looping, rounds] = [Number(values.healthy), Number(values.looping), Number(values.rounds)]
  const stack = await startStack()
  const here = {
    temporal: { address: stack.temporalAddress, namespace: stack.namespace },
    postgres: stack.databaseUrl,
    taskQueue: TASK_QUEUE,
  }
  const pawl = await Pawl.connect(here)
  const module = fileURLToPath(new URL('crash-loop/agent.mjs', import.meta.url))
  const worker = await startWorker({ ...here, module, processes: Number(values.executors) })
  const sessions = Array.from({ length: healthy }, () => pawl.session(undefined, { agent: 'healthy' }))

  /** Every session has one run, and the starts are spread evenly over the round: milliseconds from message to result. */
  async function round(): Promise<number[]> {
    await sleep(BETWEEN_MS)
    const everyMs = (Number(values.seconds) * 1_000) / healthy
    return Promise.all(
      sessions.map(async (session, n) => {
        await sleep(n * everyMs)
        const at = performance.now()
        await (await session.send('go')).result({ timeout: '2m' })
        return performance.now() - at
      }),
    )
  }

  /** Two rounds beside sessions in a crash loop: while pawl learns which they are, and once it knows. */
  async function beside(): Promise<[number[], number[]]> {
    const loops = Array.from({ length: looping }, () => pawl.session(undefined, { agent: 'looping' }))
    for (const loop of loops) await loop.send('go')
    const measured: [number[], number[]] = [await round(), await round()]
    for (const loop of loops) await loop.interrupt()
    return measured
  }

  const died = (): number => worker.events.filter(({ event }) => event === 'worker_died').length
  const [alone, first, later]: [number[], number[], number[]] = [[], [], []]
  try {
    await round()
    for (let n = 0; n < rounds; n++) {
      alone.push(...(await round()))
      const [one, two] = await beside()
      first.push(...one)
      later.push(...two)
      await worker.serving()
    }
  } finally {
    await worker.stop()
    await pawl.close()
    await stack.stop()
  }
  const ratio = (runs: number[], q: number): string => `× ${(quantile(runs, q) / quantile(alone, q)).toFixed(2)}`
  for (const [name, runs] of [
    ['alone', alone],
    [`beside ${looping} crash loops, first`, first],
    [`beside ${looping} crash loops, then`, later],
  ] as const) {
    const [p50, p90, p99] = [0.5, 0.9, 0.99].map((q) => `${Math.round(quantile(runs, q))} ms (${ratio(runs, q)})`)
    console.log(`${name.padEnd(32)} ${runs.length} runs: p50 ${p50}, p90 ${p90}, p99 ${p99}`)
  }
  console.log(`${died()} executors died, of ${values.executors}; load average ${loadavg()[0]?.toFixed(1)}`)
}
