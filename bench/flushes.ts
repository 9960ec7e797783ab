// `npm run bench -- flushes`: many sessions that flush at once, with pawl's shared notifications against one in every transaction.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { startStack } from 'pawl/testing'
import pg from 'pg'
import { openStore, type Store } from '../src/store/index.ts'
import { sessionLog } from './lists/sessions.ts'
import { quantile, sampleOf } from './statistics.ts'

/** Stores of processes that share a server, each with a pool of its own. */
const STORES = 5
/** Events of a flush: about a turn's. */
const EVENTS = 6

/** `each`: a notification in every transaction, by a trigger beside what the store sends itself. */
type Side = 'shared' | 'each'

/** One side of one round. */
interface Measured {
  flushesPerSecond: number
  ms: number[]
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      json: { type: 'boolean', default: false },
      sessions: { type: 'string', default: '50' },
      rounds: { type: 'string', default: '7' },
      // The minimum wait of a commit for the disk, for machines whose disk is faster than a server's.
      'commit-ms': { type: 'string', default: '0' },
    },
  })
  const sessions = Number(values.sessions)
  const stack = await startStack()
  const postgres = await stack.createDatabase()
  const admin = new pg.Client({ connectionString: postgres })
  await admin.connect()
  const database = new URL(postgres).pathname.slice(1)
  await admin.query(`alter database "${database}" set commit_delay = ${Math.round(Number(values['commit-ms']) * 1_000)}`)
  await admin.query(`alter database "${database}" set commit_siblings = 0`)
  const stores = Array.from({ length: STORES }, () => openStore({ postgres }))
  try {
    await Promise.all(stores.map((store) => store.head('its tables are made')))
    await admin.query(
      `create function notify_each() returns trigger language plpgsql as $$ begin perform pg_notify('each', new.session_id); return new; end $$;
       create trigger notify_each after update on pawl.sessions for each row execute function notify_each()`,
    )
    const sides: Record<Side, Measured[]> = { shared: [], each: [] }
    await flushAll(stores, sessions, 'warm')
    for (let round = 0; round < Number(values.rounds); round += 1) {
      for (const side of round % 2 === 0 ? (['shared', 'each'] as const) : (['each', 'shared'] as const)) {
        await admin.query(`alter table pawl.sessions ${side === 'each' ? 'enable' : 'disable'} trigger notify_each`)
        sides[side].push(await flushAll(stores, sessions, `${round}-${side}`))
      }
    }
    report({ sessions, sides, json: values.json })
  } finally {
    await Promise.all(stores.map((store) => store.close()))
    await admin.end()
    await stack.dropDatabase(postgres)
    await stack.stop()
  }
}

/** Flushes sessions side by side, each of them turn by turn. */
async function flushAll(stores: readonly Store[], sessions: number, name: string): Promise<Measured> {
  const ms: number[] = []
  const begun = performance.now()
  await Promise.all(
    Array.from({ length: sessions }, async (_, nth) => {
      const { id, log } = sessionLog(nth, sessions)
      for (let end = EVENTS; end < log.length + EVENTS; end += EVENTS) {
        const since = performance.now()
        await stores[nth % stores.length]?.flush(`${name}-${id}`, id, log.slice(0, end))
        ms.push(performance.now() - since)
      }
    }),
  )
  return { flushesPerSecond: (ms.length * 1_000) / (performance.now() - begun), ms }
}

function report({ sessions, sides, json }: { sessions: number; sides: Record<Side, Measured[]>; json: boolean }): void {
  const ratio = sampleOf(sides.shared.map((one, round) => one.flushesPerSecond / (sides.each[round]?.flushesPerSecond ?? Number.NaN)))
  const of = (side: Side) => {
    const ms = sides[side].flatMap((one) => one.ms)
    const perSecond = sampleOf(sides[side].map((one) => one.flushesPerSecond))
    return { perSecond: perSecond.median, p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), flushes: ms.length }
  }
  const [shared, each, load] = [of('shared'), of('each'), loadavg()[0]]
  if (json) {
    process.stdout.write(`${JSON.stringify({ bench: 'flushes', sessions, shared, each, ratio, load })}\n`)
    return
  }
  const line = (what: string, { perSecond, p50, p99, flushes }: typeof shared): string =>
    `${what}: ${perSecond.toFixed(0)} flushes/s, a flush ${p50.toFixed(1)} ms (p50), ${p99.toFixed(1)} ms (p99), of ${flushes}\n`
  process.stdout.write(
    `${sessions} sessions at once\n` +
      line('one notification for the flushes of 50 ms', shared) +
      line('one notification in each transaction   ', each) +
      `ratio ${ratio.median.toFixed(2)} ± ${ratio.noise.toFixed(2)}, load average ${load?.toFixed(1)}\n`,
  )
}
