// `npm run bench -- stream`: how long a word takes from a model's `onDelta` to a watcher, with many streams at once; for comparison, the
// same words by one Postgres notification each.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { loadavg } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import { superviseWorkers } from 'pawl/worker'
import pg from 'pg'
import { cpuByPart } from './proc.ts'
import { quantile } from './statistics.ts'
import { now, type StreamOrder } from './stream/clock.ts'

const TASK_QUEUE = 'bench-stream'
const here = (name: string): string => fileURLToPath(new URL(`./stream/${name}`, import.meta.url))

/** Milliseconds that words took. */
interface Times {
  all: number[]
  /** Of the words that were said while all streams were running, and no session opened or ended. */
  amid: number[]
  /** Of the first one of each stream. */
  first: number[]
}

/** CPU by process, as a fraction of one core. */
interface Measured extends Times {
  expected: number
  cores: Map<string, number>
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      streams: { type: 'string', default: '100' },
      words: { type: 'string', default: '500' },
      'per-second': { type: 'string', default: '50' },
      'first-after': { type: 'string', default: '300' },
      executors: { type: 'string', default: '2' },
      floor: { type: 'boolean', default: true },
    },
    allowNegative: true,
  })
  const order: StreamOrder = {
    words: Number(values.words),
    perSecond: Number(values['per-second']),
    firstAfterMs: Number(values['first-after']),
  }
  const stack = await startStack()
  const { temporalAddress: address, namespace, databaseUrl } = stack
  const supervisor = await superviseWorkers({
    module: here('agent.ts'),
    processes: Number(values.executors),
    temporal: { address, namespace },
    taskQueue: TASK_QUEUE,
    postgres: databaseUrl,
  })
  await supervisor.ready()
  const pawl = await Pawl.connect({ temporal: { address, namespace }, taskQueue: TASK_QUEUE, postgres: databaseUrl })
  const database = new pg.Client(databaseUrl)
  await database.connect()
  try {
    await overPawl(pawl, 5, { ...order, words: 20 })
    for (const streams of values.streams.split(',').map(Number)) {
      const before = await workOf(database)
      say(`${streams} streams`, await overPawl(pawl, streams, order), order)
      const after = await workOf(database)
      console.log(
        `       Postgres: ${((after.commits - before.commits) / (order.words / order.perSecond)).toFixed(0)} transactions/s; ${await partsLeft(database)} parts left`,
      )
      if (values.floor) say('  floor', await overNotifications(databaseUrl, streams, order), order)
    }
    console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
  } finally {
    await database.end()
    await pawl.close()
    await supervisor.shutdown()
    await stack.stop()
  }
}

async function overPawl(pawl: Pawl, streams: number, order: StreamOrder): Promise<Measured> {
  return measured(streams, order, async () => {
    const said = await Promise.all(
      Array.from({ length: streams }, async () => {
        // Not all sessions open at the same moment.
        await sleep(Math.random() * 2_000)
        const run = await pawl.session(undefined, { agent: 'speaker' }).send(JSON.stringify(order))
        const words: { at: number; ms: number }[] = []
        let rest = ''
        for await (const item of run.stream()) {
          if (item.type !== 'delta' || item.delta.type !== 'text') continue
          const arrivedAt = now()
          const times = (rest + item.delta.text).split(' ')
          rest = times.pop() ?? ''
          for (const time of times) words.push({ at: Number(time), ms: arrivedAt - Number(time) })
        }
        return words
      }),
    )
    const from = Math.max(...said.map(([first]) => first?.at ?? 0))
    const until = Math.min(...said.map((words) => words.at(-1)?.at ?? 0))
    const words = said.flat()
    return {
      all: words.map(({ ms }) => ms),
      amid: words.filter(({ at }) => at > from && at <= until).map(({ ms }) => ms),
      first: said.flatMap(([first]) => first?.ms ?? []),
    }
  })
}

async function overNotifications(databaseUrl: string, streams: number, order: StreamOrder): Promise<Measured> {
  const all: number[] = []
  const listener = new pg.Client(databaseUrl)
  await listener.connect()
  listener.on('notification', ({ payload }) => all.push(now() - Number(payload)))
  await listener.query('listen floor')
  try {
    return await measured(streams, order, async () => {
      const args = ['--import', 'tsx', here('floor-worker.ts'), databaseUrl, String(streams), JSON.stringify(order)]
      await once(spawn(process.execPath, args, { stdio: 'inherit' }), 'exit')
      await sleep(500)
      return { all, amid: [], first: [] }
    })
  } finally {
    await listener.end()
  }
}

async function measured(streams: number, { words, perSecond }: StreamOrder, work: () => Promise<Times>): Promise<Measured> {
  const before = await cpuByPart()
  const times = await work()
  const after = await cpuByPart()
  const ms = (words / perSecond) * 1_000
  const cores = new Map([...after].map(([part, used]) => [part, (used - (before.get(part) ?? 0)) / ms]))
  return { ...times, expected: streams * words, cores }
}

async function workOf(database: pg.Client): Promise<{ commits: number }> {
  await database.query('select pg_stat_force_next_flush()')
  const { rows } = await database.query('select xact_commit from pg_stat_database where datname = current_database()')
  return { commits: Number(rows[0]?.xact_commit) }
}

/** Counts the parts that are left once their writers have had time to delete them. */
async function partsLeft(database: pg.Client): Promise<number> {
  await sleep(3_000)
  const { rows } = await database.query('select count(*) as parts from pawl.deltas')
  return Number(rows[0]?.parts)
}

function say(what: string, { all, amid, first, expected, cores }: Measured, { perSecond }: StreamOrder): void {
  console.log(`${what}, ${perSecond} words/s each: ${quantiles(all)}; ${((all.length / expected) * 100).toFixed(1)} % of the words seen`)
  if (amid.length > 0) console.log(`       while all of them speak: ${quantiles(amid)}`)
  if (first.length > 0) console.log(`       first word: ${quantiles(first)}`)
  const shown = [...cores].filter(([, part]) => part >= 0.01).map(([part, used]) => `${part} ${used.toFixed(2)}`)
  console.log(`       cores: ${shown.join(', ')}`)
}

function quantiles(times: number[]): string {
  return [0.5, 0.9, 0.99].map((q) => `p${q * 100} ${quantile(times, q).toFixed(1)} ms`).join(', ')
}
