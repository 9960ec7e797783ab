// `npm run bench -- lists`: every list query over 10,000 sessions, and what Postgres does for it.
import { loadavg } from 'node:os'
import { parseArgs } from 'node:util'
import pg from 'pg'
import { startStack } from 'pawl/testing'
import { openStore, type Store } from '../src/store/index.ts'
import { type Lists, listsOf } from '../src/store/read/lists/index.ts'
import { schemaOf } from '../src/store/postgres/schema.ts'
import { BEGIN, DAYS, sessionLog } from './lists/sessions.ts'
import { quantile } from './statistics.ts'

const GOAL_MS = 20
const PAGE = 50
const FLUSHERS = 8
const DAY_MS = 86_400_000
/** Values as text, as in the store's own queries. */
const AS_TEXT = { getTypeParser: () => (value: unknown) => value }

type List = (lists: Lists, limit: number) => Promise<unknown>

/** Every query that the client's lists can make, each with the filters that narrow it most and least. */
const LISTS: Record<string, List> = {
  // The round trip to Postgres, to compare the others with.
  'no session (floor)': (lists) => lists.session('nobody'),
  'sessions, all': (lists, limit) => lists.sessions({}, { limit }),
  'sessions, 100 pages on': async (lists, limit) => lists.sessions({}, { limit, after: await middleOf(lists) }),
  'sessions in error': (lists, limit) => lists.sessions({ status: ['error'] }, { limit }),
  'sessions running (none)': (lists, limit) => lists.sessions({ status: ['running'] }, { limit }),
  'sessions in error or waiting': (lists, limit) => lists.sessions({ status: ['error', 'waiting'] }, { limit }),
  'sessions closed, of an agent': (lists, limit) => lists.sessions({ status: ['closed'], agent: 'support' }, { limit }),
  'sessions of an agent': (lists, limit) => lists.sessions({ agent: 'billing' }, { limit }),
  'sessions of no agent': (lists, limit) => lists.sessions({ agent: 'nobody' }, { limit }),
  'sessions with a rare tag': (lists, limit) => lists.sessions({ tags: ['customer:7'] }, { limit }),
  'sessions with a common tag': (lists, limit) => lists.sessions({ tags: ['web'] }, { limit }),
  'sessions with two tags': (lists, limit) => lists.sessions({ tags: ['web', 'customer:7'] }, { limit }),
  'sessions of a day': (lists, limit) =>
    lists.sessions({ since: new Date(BEGIN + DAY_MS), until: new Date(BEGIN + 2 * DAY_MS) }, { limit }),
  'one session': (lists) => lists.session('session-004999'),
  messages: (lists, limit) => lists.messages('session-004999', { limit }),
  'archived messages': (lists) => lists.archivedMessages('session-004999'),
  checkpoints: (lists, limit) => lists.checkpoints('session-004999', { limit }),
  'latest checkpoint': (lists) => lists.latestCheckpoint('session-004999'),
  'errors, all': (lists, limit) => lists.errors({}, { limit }),
  'errors of the model': (lists, limit) => lists.errors({ context: 'model' }, { limit }),
  'errors of a tool since a day': (lists, limit) =>
    lists.errors({ context: 'tool:refund_order', since: new Date(BEGIN + (DAYS - 1) * DAY_MS) }, { limit }),
  'errors of no tool': (lists, limit) => lists.errors({ context: 'tool:none' }, { limit }),
  'errors of a session': (lists, limit) => lists.errors({ session: 'session-004999' }, { limit }),
  'tool calls, all': (lists, limit) => lists.toolCalls({}, { limit }),
  'tool calls unknown': (lists, limit) => lists.toolCalls({ status: ['unknown'] }, { limit }),
  'tool calls failed': (lists, limit) => lists.toolCalls({ status: ['failed'] }, { limit }),
  'tool calls denied (none)': (lists, limit) => lists.toolCalls({ status: ['denied'] }, { limit }),
  'tool calls waiting (none)': (lists, limit) => lists.toolCalls({ status: ['awaiting_approval', 'awaiting_answer'] }, { limit }),
  'tool calls completed, of a tool': (lists, limit) => lists.toolCalls({ status: ['completed'], tool: 'refund_order' }, { limit }),
  'tool calls unknown, of a tool': (lists, limit) => lists.toolCalls({ status: ['unknown'], tool: 'refund_order' }, { limit }),
  'tool calls of a session': (lists, limit) => lists.toolCalls({ session: 'session-004999' }, { limit }),
  'all tool calls of a session': (lists) => lists.toolCallsOf('session-004999'),
  'usage of a day by agent': (lists, limit) =>
    lists.usage({ by: 'agent', since: new Date(BEGIN + DAY_MS), until: new Date(BEGIN + 2 * DAY_MS) }, { limit }),
  'usage of a week by session': (lists, limit) =>
    lists.usage({ by: 'session', since: new Date(BEGIN), until: new Date(BEGIN + 7 * DAY_MS) }, { limit }),
  'usage of a month by day': (lists, limit) =>
    lists.usage({ by: 'day', since: new Date(BEGIN), until: new Date(BEGIN + 30 * DAY_MS) }, { limit }),
  'usage of a month by session': (lists, limit) =>
    lists.usage({ by: 'session', since: new Date(BEGIN), until: new Date(BEGIN + 30 * DAY_MS) }, { limit }),
  'usage of a month that cuts its days': (lists, limit) =>
    lists.usage({ by: 'day', since: new Date(BEGIN + DAY_MS / 2), until: new Date(BEGIN + 30.5 * DAY_MS) }, { limit }),
  'usage of all by day': (lists, limit) => lists.usage({ by: 'day' }, { limit }),
  'usage of all by agent': (lists, limit) => lists.usage({ by: 'agent' }, { limit }),
  'usage of all by model': (lists, limit) => lists.usage({ by: 'model' }, { limit }),
  'usage of all by session': (lists, limit) => lists.usage({ by: 'session' }, { limit }),
  'usage of nearly all by session': (lists, limit) => lists.usage({ by: 'session', since: new Date(BEGIN + 1) }, { limit }),
  'usage of a session by day': (lists, limit) => lists.usage({ by: 'day', session: 'session-004999' }, { limit }),
  'feed from the beginning': (lists) => lists.feed({}, undefined),
  'feed of one type': (lists) => lists.feed({ types: ['error_entered'] }, undefined),
}

/** Runs the benchmark. */
export async function run(args: string[]): Promise<void> {
  const { values } = parseArgs({
    args,
    options: {
      sessions: { type: 'string', default: '10000' },
      repeats: { type: 'string', default: '15' },
      explain: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
    },
  })
  const [sessions, repeats] = [Number(values.sessions), Number(values.repeats)]
  await withSessions(sessions, async (pool) => {
    const rows = await countsOf(pool)
    const results: Measured[] = []
    for (const [name, list] of Object.entries(LISTS)) results.push(await measure(name, list, pool, repeats))
    if (values.json)
      return console.log(
        JSON.stringify({
          lists: { sessions, rows, results: results.map(({ name, min, p50, max, scans }) => ({ name, min, p50, max, scans })) },
        }),
      )
    console.log(`${sessions} sessions: ${rows.map(({ table, count }) => `${count} ${table}`).join(', ')}`)
    for (const { name, min, p50, max, scans } of results) {
      const [lowest, half, highest] = [min, p50, max].map((ms) => ms.toFixed(1).padStart(5))
      const verdict = p50 < GOAL_MS ? '' : `  over ${GOAL_MS} ms`
      console.log(`${name.padEnd(34)} min ${lowest}  p50 ${half}  max ${highest} ms${verdict}  ${scans}`)
    }
    console.log(`load average ${loadavg()[0]?.toFixed(1)}`)
    if (values.explain) for (const { name, plans } of results) console.log(`\n-- ${name}\n${plans.join('\n')}`)
  })
}

/** One list, measured. */
interface Measured {
  name: string
  min: number
  p50: number
  max: number
  /** How Postgres reads the tables. */
  scans: string
  plans: string[]
}

async function withSessions(sessions: number, use: (pool: pg.Pool) => Promise<void>): Promise<void> {
  const stack = await startStack()
  try {
    const postgres = await stack.createDatabase()
    const pool = new pg.Pool({ connectionString: postgres, max: FLUSHERS })
    const store = openStore({ postgres: pool })
    try {
      await fill(store, sessions)
      await pool.query('vacuum analyze')
      await use(pool)
    } finally {
      await store.close()
      await pool.end()
      await stack.dropDatabase(postgres)
    }
  } finally {
    await stack.stop()
  }
}

async function measure(name: string, list: List, pool: pg.Pool, repeats: number): Promise<Measured> {
  const statements: { text: string; values: unknown[] }[] = []
  const query = async (text: string, values: readonly unknown[] = []) => {
    statements.push({ text, values: [...values] })
    return (await pool.query({ text, values: [...values], types: AS_TEXT })).rows
  }
  const work = <T>(on: (at: { query: typeof query }) => Promise<T>): Promise<T> => on({ query })
  const database = { query, snapshot: work, sequence: work }
  const lists = listsOf({ database, schema: schemaOf('pawl'), reading: (read) => read(), logger: undefined })
  await list(lists, PAGE)
  const plans: string[] = []
  for (const { text, values } of statements.splice(0)) {
    const { rows } = await pool.query(`explain (analyze, buffers) ${text}`, values)
    plans.push(...rows.map((row) => String(row['QUERY PLAN'])))
  }
  const ms: number[] = []
  for (let repeat = 0; repeat < repeats; repeat++) {
    const begun = performance.now()
    await list(lists, PAGE)
    ms.push(performance.now() - begun)
  }
  return { name, min: Math.min(...ms), p50: quantile(ms, 0.5), max: Math.max(...ms), scans: scansIn(plans), plans }
}

function scansIn(plans: readonly string[]): string {
  const scans = plans.flatMap((line) => {
    const [, sequential, index] = /Seq Scan on (\S+)|(?:Index Scan|Index Only Scan|Bitmap Index Scan).*?(?:using|on) (\S+)/.exec(line) ?? []
    return sequential ? [`all of ${sequential}`] : index ? [index] : []
  })
  return [...new Set(scans)].join(', ')
}

async function fill(store: Store, sessions: number): Promise<void> {
  let next = 0
  await Promise.all(
    Array.from({ length: FLUSHERS }, async () => {
      while (next < sessions) {
        const { id, log } = sessionLog(next++, sessions)
        await store.flush(id, id, log)
      }
    }),
  )
}

async function countsOf(pool: pg.Pool): Promise<{ table: string; count: number }[]> {
  const tables = ['messages', 'tool_calls', 'errors', 'token_usage', 'usage_by_day', 'checkpoints', 'events']
  const counts = []
  for (const table of tables) {
    const { rows } = await pool.query(`select count(*)::int as count from pawl.${table}`)
    counts.push({ table, count: Number(rows[0]?.count) })
  }
  return counts
}

async function middleOf(lists: Lists): Promise<[number, string]> {
  const middle = await lists.session('session-005000')
  return [middle?.createdAt.getTime() ?? 0, 'session-005000']
}
