// A session with a long past: what a page, a stream, or a value of it costs does not depend on how much came before. Postgres counts the
// rows that it reads, and the client the bytes that it gets.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import type { Pawl } from 'pawl/client'
import { createHandler, type Handler } from 'pawl/service'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EventBody } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { size } from '../support/sizes.ts'
import { webClient } from '../support/web.ts'
import { EPOCH, logOf, oneRun, started } from './store/sessions.ts'

const SHORT = 2_000
const LONG = size(10_000, 20_000)
const RUN = 10
const schema = `past_${randomUUID().replaceAll('-', '').slice(0, 16)}`

let here: Deployment
let pool: pg.Pool
let store: Store
let pawl: Pawl
let handler: Handler
const meter = { bytes: 0 }

beforeAll(async () => {
  here = await deploy()
  pool = new pg.Pool({ connectionString: here.stack.databaseUrl, max: 1, idleTimeoutMillis: 0 })
  // One connection, so that the statistics of its backend are all that there are.
  pool.on('connect', (client) => {
    ;(client as unknown as { connection: { stream: NodeJS.ReadableStream } }).connection.stream.on('data', (chunk: Buffer) => {
      meter.bytes += chunk.length
    })
  })
  store = openStore({ postgres: pool, schema })
  for (const [id, events] of [
    ['short', runsUpTo(SHORT)],
    ['long', runsUpTo(LONG)],
    ['archived', [...runsUpTo(LONG), ...rolledBack(LONG)]],
  ] as const) {
    const log = logOf([started({ sessionId: id }), ...events])
    for (let at = 0; at < log.length; at += 1_000) await store.flush(id, EPOCH, log.slice(at, at + 1_000))
  }
  // What autovacuum does within a minute: without statistics, Postgres expects few rows, and reads all of them.
  for (const table of ['events', 'messages', 'tool_calls', 'checkpoints', 'sessions']) await pool.query(`analyze ${schema}.${table}`)
  pawl = await here.connect({ postgres: pool, schema })
  handler = createHandler({ pawl, authorize: () => ({ identity: 'user:ann', scopes: ['read', 'send'] }), logger: SILENT })
}, 240_000)
afterAll(async () => {
  await store?.close()
  await here?.stop()
  await pool?.query(`drop schema if exists ${schema} cascade`)
  await pool?.end()
})

/** Runs of nine events, each with a checkpoint. */
function runsUpTo(events: number, from = 1): EventBody[] {
  return Array.from({ length: Math.floor(events / RUN) }, (_, n): EventBody[] => {
    const run = from + n
    return [...oneRun(run, `message-${run}`), { type: 'checkpoint_made', version: run, run, turn: 2, reasons: ['run_end'] }]
  }).flat()
}

/** All but the first twenty runs are archived, and twenty others follow. */
function rolledBack(events: number): EventBody[] {
  const runs = Math.floor(events / RUN)
  return [{ type: 'rolled_back', toSeq: 1 + 20 * RUN, upToSeq: 1 + runs * RUN, effects: [] }, ...runsUpTo(20 * RUN, runs + 1)]
}

interface Cost {
  /** Rows that Postgres has read. */
  rows: number
  /** Bytes that it has sent. */
  bytes: number
}

async function rowsRead(): Promise<number> {
  await pool.query('select pg_stat_force_next_flush()')
  const { rows } = await pool.query<{ read: string }>(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0)) as read from pg_stat_user_tables where schemaname = $1`,
    [schema],
  )
  return Number(rows[0]?.read)
}

async function costOf(work: () => Promise<unknown>): Promise<Cost> {
  const before = await rowsRead()
  const { bytes } = meter
  await work()
  const sent = meter.bytes - bytes
  return { rows: (await rowsRead()) - before, bytes: sent }
}

const get = (path: string, headers?: Record<string, string>) => webClient(handler, 'key').get(path, headers)

async function page(id: string, query = ''): Promise<{ ids: string[]; cursor: string | undefined }> {
  const { status, body } = await get(`/v1/ui/${id}/messages?limit=20${query}`)
  expect(status).toBe(200)
  const { messages, cursor } = body as unknown as { messages: { id: string }[]; cursor?: string }
  return { ids: messages.map((message) => message.id), cursor }
}

/** The runs of which the page shows a message. */
const runsOn = ({ ids }: { ids: string[] }): number[] => ids.flatMap((id) => Number(/^message-(\d+)$/.exec(id)?.[1] ?? 0) || [])

async function stream(id: string, lastEventId?: string): Promise<string> {
  const request = new Request(`http://service.test/v1/ui/${id}/stream`, {
    headers: { authorization: 'Bearer key', ...(lastEventId !== undefined && { 'last-event-id': lastEventId }) },
  })
  return (await handler(request)).text()
}

/** The cost in the long session is that in the short one, which is a tenth as long. */
function expectSame(short: Cost, long: Cost): void {
  expect(long.rows).toBeLessThanOrEqual(short.rows * 1.2 + 30)
  expect(long.bytes).toBeLessThanOrEqual(short.bytes * 1.2 + 10_000)
}

describe('in a chat', () => {
  it('the newest page of a chat costs no more with a long past than with a short one', async () => {
    const short = await costOf(() => page('short'))
    const long = await costOf(async () => expect(runsOn(await page('long'))).toContain(LONG / RUN))
    expect(short.rows).toBeLessThan(SHORT / 2)
    expectSame(short, long)
  })

  it('a page in the middle of a chat costs no more with a long past than with a short one', async () => {
    const at = (events: number) => `&cursor=${events / 2 + 4}`
    const short = await costOf(() => page('short', at(SHORT)))
    const long = await costOf(async () => expect(runsOn(await page('long', at(LONG)))).toContain(LONG / RUN / 2))
    expect(short.rows).toBeLessThan(SHORT)
    expectSame(short, long)
  })

  it('pages of a chat around a rollback that has archived nearly everything cost no more with a long past', async () => {
    const short = await costOf(() => page('short'))
    const shown: number[] = []
    const long = await costOf(async () => {
      for (let cursor: string | undefined = '', pages = 0; cursor !== undefined && pages < 10; pages++) {
        const one: Awaited<ReturnType<typeof page>> = await page('archived', cursor === '' ? '' : `&cursor=${cursor}`)
        shown.unshift(...runsOn(one))
        cursor = one.cursor
      }
    })
    const last = LONG / RUN
    expect(shown).toEqual([...Array(20).keys()].flatMap((n) => [n + 1]).concat([...Array(20).keys()].map((n) => last + n + 1)))
    expectSame({ rows: short.rows * 8, bytes: short.bytes * 8 }, long)
  })

  it('starting and resuming a stream costs no more with a long past than with a short one', async () => {
    const start = { short: await costOf(() => stream('short')), long: await costOf(() => stream('long')) }
    expectSame(start.short, start.long)
    const resume = (id: string, events: number) => stream(id, `after=${events - 15}`)
    const resumed = { short: await costOf(() => resume('short', SHORT)), long: await costOf(() => resume('long', LONG)) }
    expect(await resume('long', LONG)).toContain('Done.')
    expectSame(resumed.short, resumed.long)
  })
})

describe('over HTTP', () => {
  it.each(['messages?limit=50', `events?limit=50`])('a page of %s costs no more with a long past than with a short one', async (path) => {
    const short = await costOf(() => get(`/v1/sessions/short/${path}`))
    const long = await costOf(async () => expect((await get(`/v1/sessions/long/${path}`)).status).toBe(200))
    expectSame(short, long)
  })
})
