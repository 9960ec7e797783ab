// `npm run bench -- store`: what the side store costs per turn, how far it lags behind, and what a turn leaves in it.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import { Client, Connection } from '@temporalio/client'
import { Pawl } from 'pawl/client'
import { startStack } from 'pawl/testing'
import pg from 'pg'
import { quantile, sampleOf } from './statistics.ts'
import { tasksOf, turnsOf } from './turn/history.ts'
import { AGENT, MODEL_ACTIVITY, TASK_QUEUE } from './turn/work.ts'
import { startWorkers, type WorkerSetting } from './turn/workers.ts'

const WARM_UP_TURNS = 30
/** Nothing listens there: the store is unreachable, and every attempt fails at once. */
const AWAY = 'postgres://nobody@127.0.0.1:1/nothing'
const TABLES = [
  'events',
  'messages',
  'tool_calls',
  'errors',
  'token_usage',
  'usage_by_day',
  'usage_by_session',
  'checkpoints',
  'commits',
] as const

interface Options {
  json: boolean
  turns: number
  rounds: number
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      json: { type: 'boolean', default: false },
      turns: { type: 'string', default: '100' },
      rounds: { type: 'string', default: '5' },
      bytes: { type: 'string', default: '1000' },
    },
  })
  process.env.BENCH_RESULT_BYTES = values.bytes
  const options: Options = { json: values.json, turns: Number(values.turns), rounds: Number(values.rounds) }
  const stack = await startStack()
  const connection = await Connection.connect({ address: stack.temporalAddress })
  const client = new Client({ connection, namespace: stack.namespace })
  try {
    const measured = await measure(client, { address: stack.temporalAddress, namespace: stack.namespace }, stack.databaseUrl, options)
    if (options.json) process.stdout.write(`${JSON.stringify({ bench: 'store', ...measured })}\n`)
    else for (const line of linesOf(measured)) process.stdout.write(`${line}\n`)
  } finally {
    await connection.close()
    await stack.stop()
  }
}

type Place = Pick<WorkerSetting, 'address' | 'namespace'>

async function measure(client: Client, place: Place, databaseUrl: string, { turns, rounds }: Options) {
  const times: Record<'on' | 'away', number[]> = { on: [], away: [] }
  const lags: Lag[] = []
  const store = new pg.Client({ connectionString: databaseUrl })
  await store.connect()
  try {
    const sides = { on: databaseUrl, away: AWAY } as const
    for (const side of ['on', 'away'] as const) await withWorker(place, sides[side], () => runTurns(client, WARM_UP_TURNS, sides[side]))
    const before = await sizes(store)
    for (let round = 0; round < rounds; round += 1) {
      for (const side of round % 2 === 0 ? (['on', 'away'] as const) : (['away', 'on'] as const)) {
        const heard = side === 'on' ? await listen(databaseUrl) : undefined
        await withWorker(place, sides[side], async () => {
          await runTurns(client, WARM_UP_TURNS, sides[side])
          const workflowId = await runTurns(client, turns, sides[side])
          const begins = await turnsOf(client, workflowId, MODEL_ACTIVITY.pawl)
          times[side].push(((begins[turns]?.atMs ?? Number.NaN) - (begins[0]?.atMs ?? Number.NaN)) / turns)
          if (heard) lags.push(...(await lagsOf(client, store, workflowId, heard.notices)))
        })
        await heard?.stop()
      }
    }
    const after = await sizes(store)
    const allTurns = rounds * (turns + WARM_UP_TURNS)
    const ratios = times.on.map((time, round) => time / (times.away[round] ?? Number.NaN))
    return {
      msPerTurn: { on: sampleOf(times.on), away: sampleOf(times.away) },
      ratio: sampleOf(ratios),
      lagMs: lagOf(lags.map((lag) => lag.behindWatermark)),
      sinceEventMs: lagOf(lags.map((lag) => lag.sinceEvent)),
      load: loadavg()[0],
      perTurn: Object.fromEntries(
        TABLES.map((table) => [
          table,
          {
            rows: (after[table].rows - before[table].rows) / allTurns,
            bytes: Math.round((after[table].bytes - before[table].bytes) / allTurns),
          },
        ]),
      ) as Record<(typeof TABLES)[number], { rows: number; bytes: number }>,
    }
  } finally {
    await store.end()
  }
}

function linesOf({ msPerTurn, ratio, lagMs, sinceEventMs, load, perTurn }: Awaited<ReturnType<typeof measure>>): string[] {
  const total = Object.values(perTurn).reduce((sum, one) => ({ rows: sum.rows + one.rows, bytes: sum.bytes + one.bytes }), {
    rows: 0,
    bytes: 0,
  })
  const row = (name: string, one: { rows: number; bytes: number }): string =>
    `  ${name.padEnd(16)} ${one.rows.toFixed(2).padStart(6)} rows ${String(one.bytes).padStart(7)} bytes`
  return [
    `a turn: ${msPerTurn.on.median.toFixed(1)} ms with the store, ${msPerTurn.away.median.toFixed(1)} ms while it is away: ${ratio.median.toFixed(3)} ± ${ratio.noise.toFixed(3)}`,
    `from Temporal having an event to the notification that it is stored: ${lagLine(lagMs)}, over ${lagMs.events} events`,
    `  from the beginning of the workflow task that made it: ${lagLine(sinceEventMs)}`,
    'a turn leaves, its indices included:',
    ...TABLES.map((table) => row(table, perTurn[table])),
    row('all', total),
    `load average ${load?.toFixed(1)}`,
  ]
}

const lagLine = ({ p50, p99, max }: ReturnType<typeof lagOf>): string =>
  `${p50.toFixed(0)} ms (p50), ${p99.toFixed(0)} ms (p99), ${max.toFixed(0)} ms (most)`

function lagOf(ms: readonly number[]) {
  return { p50: quantile(ms, 0.5), p99: quantile(ms, 0.99), max: quantile(ms, 1), events: ms.length }
}

async function withWorker<T>(place: Place, databaseUrl: string, use: () => Promise<T>): Promise<T> {
  const stop = await startWorkers('pawl', 1, { ...place, databaseUrl, eager: 'on', floorBundle: '' })
  try {
    return await use()
  } finally {
    await stop()
  }
}

async function runTurns(client: Client, turns: number, postgres: string): Promise<string> {
  const pawl = await Pawl.connect({ temporal: client, taskQueue: TASK_QUEUE.pawl, postgres })
  try {
    const session = pawl.session(undefined, { agent: AGENT })
    await (await session.send(String(turns))).result()
    return `pawl:${session.id}`
  } finally {
    await pawl.close()
  }
}

interface Notice {
  session: string
  seq: number
  at: number
}

/** Records when notifications arrive, and up to which event the sessions are stored at that moment. */
async function listen(databaseUrl: string): Promise<{ notices: Notice[]; stop(): Promise<void> }> {
  const listener = new pg.Client({ connectionString: databaseUrl })
  await listener.connect()
  const notices: Notice[] = []
  const look = async (at: number): Promise<void> => {
    const { rows } = await listener.query<{ session: string; seq: string }>(
      `select session_id as session, flushed_seq as seq from pawl.sessions where status = 'running' or flushed_at > now() - interval '10 s'`,
    )
    notices.push(...rows.map(({ session, seq }) => ({ session, seq: Number(seq), at })))
  }
  // A query that the end of the benchmark cuts off does not matter.
  listener.on('notification', () => void look(Date.now()).catch(() => undefined))
  await listener.query('listen pawl_pawl')
  return { notices, stop: () => listener.end() }
}

/** Milliseconds until the notification that an event is stored. */
interface Lag {
  sinceEvent: number
  /** Since the workflow task that made it was completed: no watermark covers it before that. */
  behindWatermark: number
}

async function lagsOf(client: Client, store: pg.Client, workflowId: string, notices: readonly Notice[]): Promise<Lag[]> {
  const session = workflowId.slice('pawl:'.length)
  const { rows } = await store.query<{ seq: string; at: string }>(
    'select seq, extract(epoch from at) * 1000 as at from pawl.events where session_id = $1 order by seq',
    [session],
  )
  const tasks = await tasksOf(client, workflowId)
  const own = notices.filter((notice) => notice.session === session)
  return rows.flatMap(({ seq, at }) => {
    const notice = own.find((one) => one.seq >= Number(seq))
    const task = tasks.findLast(({ startedMs }) => startedMs <= Number(at))
    return notice && task ? [{ sinceEvent: notice.at - Number(at), behindWatermark: notice.at - task.completedMs }] : []
  })
}

async function sizes(store: pg.Client): Promise<Record<(typeof TABLES)[number], { rows: number; bytes: number }>> {
  const entries = await Promise.all(
    TABLES.map(async (table) => {
      const { rows } = await store.query<{ rows: string; bytes: string }>(
        `select count(*) as rows, pg_total_relation_size('pawl.${table}') as bytes from pawl.${table}`,
      )
      return [table, { rows: Number(rows[0]?.rows), bytes: Number(rows[0]?.bytes) }] as const
    }),
  )
  return Object.fromEntries(entries) as Record<(typeof TABLES)[number], { rows: number; bytes: number }>
}
