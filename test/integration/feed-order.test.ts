// The order of the feed against a real Postgres: what delays it, what does not, and that no reader misses an event of any flush.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import fc from 'fast-check'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { judgeFeed } from '../../src/client/doctor/judgements.ts'
import { type Queries, queriesOf } from '../../src/client/queries/queries.ts'
import type { FeedOptions } from '../../src/client/queries/list-options.ts'
import { defined } from '../../src/session/defined.ts'
import type { LogEntry } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { readFeed } from '../../src/store/read/lists/feed.ts'
import type { FeedRows, Key } from '../../src/store/read/lists/index.ts'
import { databaseAt, type Queryable } from '../../src/store/postgres/database.ts'
import { storeHealth } from '../../src/store/maintenance/health.ts'
import { horizonIn, joinWriters } from '../../src/store/postgres/commit-order.ts'
import { schemaOf } from '../../src/store/postgres/schema.ts'
import { type Stack, startStack } from '../../src/testing/stack.ts'
import { type Recorder, recorder } from '../support/recorder.ts'
import { seed, size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { EPOCH, logOf, received, started } from './store/sessions.ts'

let stack: Stack
let url: string
let otherUrl: string
let schema: string
let store: Store
let queries: Queries
let log: Recorder
const connections: pg.Client[] = []

beforeAll(async () => {
  stack = await startStack()
  url = await stack.createDatabase()
  otherUrl = await stack.createDatabase()
})
afterAll(async () => {
  await stack.dropDatabase(url)
  await stack.dropDatabase(otherUrl)
  await stack.stop()
})
beforeEach(async () => {
  schema = `order_${randomUUID().replaceAll('-', '').slice(0, 16)}`
  log = recorder()
  store = openStore({ postgres: url, schema, logger: log })
  queries = queriesOf(store)
  await store.head('unknown')
})
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.end()
  await store.close()
})

async function connect(to = url): Promise<pg.Client> {
  const connection = new pg.Client(to)
  await connection.connect()
  connections.push(connection)
  return connection
}

const sessionOf = (id: string, messages = 0): LogEntry[] =>
  logOf([started({ sessionId: id }), ...Array.from({ length: messages }, (_, n) => received(`m${n}`))])

/** Flushes a new session. */
const flush = (id: string): Promise<unknown> => store.flush(id, EPOCH, sessionOf(id))

async function read(options: FeedOptions = {}): Promise<string[]> {
  const found: string[] = []
  for await (const { sessionId, event } of queries.events(options)) found.push(`${sessionId} ${event.seq}`)
  return found
}

/** The beginning of a flush, which the test continues by hand. */
async function openFlush(name = schema, to = url): Promise<pg.Client> {
  const writer = await connect(to)
  await writer.query('begin')
  await writer.query(joinWriters(schemaOf(name)))
  return writer
}

async function write(writer: pg.Client, id: string, entries: readonly LogEntry[]): Promise<void> {
  await writer.query(`insert into ${schema}.commits (session_id, first_seq, last_seq) values ($1, $2, $3)`, [
    id,
    entries[0]?.seq,
    entries.at(-1)?.seq,
  ])
  for (const { seq, digest, json } of entries) {
    await writer.query(
      `insert into ${schema}.events (session_id, seq, epoch, type, at, digest, json) values ($1, $2, $3, $4, now(), $5, $6)`,
      [id, seq, EPOCH, (JSON.parse(json) as { type: string }).type, digest, json],
    )
  }
}

const pidOf = (client: pg.Client): number => (client as unknown as { processID: number }).processID
const idOf = async (client: pg.Client): Promise<string> => (await client.query('select pg_current_xact_id()::text as id')).rows[0].id

describe('the feed does not wait for', () => {
  it('the feed does not wait for a transaction of another program, in this database or another one on the server', async () => {
    for (const to of [url, otherUrl]) {
      const stranger = await connect(to)
      await stranger.query('begin')
      await idOf(stranger)
    }
    await flush('a')
    expect(await read()).toEqual(['a 1'])
  })

  it('the feed does not wait for a flush in another Postgres schema, or in the same schema of another database', async () => {
    for (const writer of [await openFlush('elsewhere'), await openFlush(schema, otherUrl)]) await idOf(writer)
    await flush('a')
    expect(await read()).toEqual(['a 1'])
  })

  it('the feed does not wait for a flush that has no transaction id yet', async () => {
    const stranger = await connect()
    await stranger.query('begin')
    await idOf(stranger)
    const writer = await openFlush()
    await flush('a')
    // A transaction of another test that is just getting its id could be this writer, for microseconds.
    await expect.poll(() => read()).toEqual(['a 1'])
    // Its id is larger than that of what was read.
    await write(writer, 'late', sessionOf('a', 1).slice(1))
    await writer.query('rollback')
  })
})

describe('the feed waits for', () => {
  it('the feed waits for a flush that has written but not ended, even if it wrote in a savepoint', async () => {
    await flush('a')
    const [, second] = sessionOf('a', 1)
    const writer = await openFlush()
    await writer.query('savepoint one')
    await write(writer, 'a', second ? [second] : [])
    await flush('b')
    expect(await read()).toEqual(['a 1'])
    await writer.query('release savepoint one')
    expect(await read()).toEqual(['a 1'])
    await writer.query('commit')
    expect(await read()).toEqual(['a 1', 'a 2', 'b 1'])
  })

  it('the feed waits for a flush of the store that has begun to write', async () => {
    await flush('a')
    const blocker = await connect()
    await blocker.query('begin')
    await blocker.query(`lock table ${schema}.messages`)
    const slow = store.flush('a', EPOCH, sessionOf('a', 1).slice(1))
    await until('the flush waits', async () => {
      const { rows } = await blocker.query('select 1 from pg_locks where pg_backend_pid() = any(pg_blocking_pids(pid)) limit 1')
      return rows.length > 0
    })
    await flush('b')
    expect(await read()).toEqual(['a 1'])
    await blocker.query('rollback')
    await slow
    expect(await read()).toEqual(['a 1', 'a 2', 'b 1'])
  })

  it('the feed waits for a flush that has a transaction id but has not written events yet', async () => {
    const writer = await openFlush()
    await idOf(writer)
    await flush('a')
    expect(await read()).toEqual([])
    await writer.query('rollback')
    expect(await read()).toEqual(['a 1'])
  })
})

describe('a feed that is held up for seconds', () => {
  it('a feed held up for seconds is reported with the process that holds it up: in the log, by the doctor, as a metric', async () => {
    const [writer, blocker, hand] = [await openFlush(), await connect(), await connect()]
    await idOf(writer)
    await flush('a')
    await read()
    expect((await store.census()).feedDelayMs).toBe(0)
    await hand.query(`update ${schema}.commits set at = at - interval '1 minute'`)
    await blocker.query('begin')
    await blocker.query(`lock table ${schema}.gates`)
    const waiting = writer.query(`select from ${schema}.gates`)
    const [pid, blockerPid] = [pidOf(writer), pidOf(blocker)]
    await until('the flush waits', async () => {
      const { rows } = await hand.query('select pg_blocking_pids($1) as pids', [pid])
      return rows[0].pids.includes(blockerPid)
    })
    expect(await read()).toEqual([])
    const says = new RegExp(`have not appeared in the feed for 1 min.*process ${pid} .*waiting for Lock: relation of process ${blockerPid}`)
    expect(log.about('the feed')).toEqual([['warn', expect.stringMatching(says)]])
    expect((await store.census()).feedDelayMs).toBeGreaterThanOrEqual(60_000)
    const health = storeHealth(url, { schema })
    const { heldUp } = await health.storage().finally(() => health.close())
    expect(judgeFeed(heldUp)).toMatchObject({ level: 'warn', measured: expect.stringMatching(says) })
    await blocker.query('rollback')
    await waiting
    await writer.query('rollback')
    expect(await read()).toEqual(['a 1'])
    expect(log.about('the feed').map(([level]) => level)).toEqual(['warn', 'info'])
  })
})

describe('a reader of the feed', () => {
  it('a reader of the feed sees in each of its steps what was committed before it', async () => {
    const database = databaseAt(url)
    const counted = async (on: Queryable): Promise<string | null | undefined> =>
      (await on.query(`select count(*) as n from ${schema}.commits`))[0]?.n
    try {
      const counts = await database.sequence(async (on) => {
        const before = await counted(on)
        await flush('a')
        return [before, await counted(on)]
      })
      expect(counts).toEqual(['0', '1'])
    } finally {
      await database.close()
    }
  })

  it('a reader of the feed misses no event while flushes overlap, and does not wait for a transaction that never ends', async () => {
    const draws = fc.sample(fc.nat(5), { numRuns: 20_000, seed })
    const draw = (): number => draws.pop() ?? 0
    const stranger = await connect(otherUrl)
    await stranger.query('begin')
    await idOf(stranger)
    const rounds = size(40, 600)
    const committed: string[] = []
    const note = (id: string, entries: readonly LogEntry[]): void => void committed.push(...entries.map(({ seq }) => `${id} ${seq}`))

    async function flushes(id: string): Promise<void> {
      const entries = sessionOf(id, rounds)
      for (let n = 0; n < entries.length; ) {
        const part = entries.slice(n, (n += 1 + draw()))
        await store.flush(id, EPOCH, part)
        note(id, part)
      }
    }
    /** Flushes that pause at each step, and some that fail. */
    async function slowFlushes(id: string): Promise<void> {
      const entries = sessionOf(id, rounds).slice(1)
      await flush(id)
      note(id, sessionOf(id))
      const writer = await connect()
      for (const entry of entries) {
        for (const outcome of draw() === 0 ? ['rollback', 'commit'] : ['commit']) {
          await writer.query('begin')
          await writer.query(joinWriters(schemaOf(schema)))
          await sleep(draw())
          if (draw() > 2) await idOf(writer)
          await sleep(draw())
          await write(writer, id, [entry])
          await sleep(draw())
          await writer.query(outcome)
        }
        note(id, [entry])
      }
    }
    /** Transactions of other programs, which take ids, too. */
    async function strangers(until: Promise<unknown>): Promise<void> {
      let isOver = false
      void until.then(() => (isOver = true))
      const other = await connect()
      while (!isOver) {
        await other.query('begin')
        await idOf(other)
        await sleep(draw())
        await other.query('commit')
      }
    }
    async function reader(until: Promise<unknown>): Promise<string[]> {
      const seen: string[] = []
      let after: string | undefined
      let isOver = false
      void until.then(() => (isOver = true))
      for (let isLast = false; !isLast; ) {
        isLast = isOver
        for await (const { sessionId, event, cursor } of queries.events(defined({ after }))) {
          seen.push(`${sessionId} ${event.seq}`)
          after = cursor
        }
      }
      return seen
    }

    const writing = Promise.all([
      ...Array.from({ length: 6 }, (_, n) => flushes(`fast-${n}`)),
      ...Array.from({ length: 4 }, (_, n) => slowFlushes(`slow-${n}`)),
    ])
    const noise = strangers(writing)
    const reading = [reader(writing), reader(writing)]
    await Promise.all([writing, noise])
    for (const seen of await Promise.all(reading)) {
      expect(seen.toSorted()).toEqual(committed.toSorted())
      for (const id of new Set(seen.map((name) => name.split(' ')[0]))) {
        const ofSession = seen.filter((name) => name.startsWith(`${id} `)).map((name) => Number(name.split(' ')[1]))
        expect(ofSession).toEqual(ofSession.toSorted((a, b) => a - b))
      }
    }
  })

  it('a reader of the feed misses no flush although thousands a second begin and end between its steps', async () => {
    const each = size(3_000, 60_000)
    const ids = ['x', 'y', 'z']
    const commits = `${schema}.commits`
    const admin = await connect()
    // Reads as the feed does, but thousands of times a second, until it has found them all, or writers have ended and it has looked again.
    await admin.query(`create function ${schema}.read_all() returns bigint language plpgsql volatile as $body$
      declare place xid8 := '0'; horizon xid8; found bigint := 0; page bigint; is_last boolean := false;
      begin
        loop
          select not exists (select from pg_locks where locktype = 'advisory' and classid = 7 and objid = 28) into is_last;
          select ${horizonIn(schemaOf(schema))} into horizon;
          select count(*) from ${commits} where txid >= place and txid < horizon into page;
          found := found + page;
          place := greatest(place, horizon);
          exit when is_last;
        end loop;
        return found;
      end $body$`)
    const writers = await Promise.all(ids.map(() => connect()))
    for (const writer of writers) await writer.query('select pg_advisory_lock_shared(7, 28)')
    const readers = await Promise.all(ids.map(() => connect()))
    const reading = readers.map(async (reader) => (await reader.query(`select ${schema}.read_all() as found`)).rows[0].found)
    const writing = writers.map(async (writer, index) => {
      await writer.query(`do $body$ begin for seq in 1..${each} loop
          perform (${joinWriters(schemaOf(schema))});
          insert into ${commits} (session_id, first_seq, last_seq) values ('${ids[index]}', seq, seq);
          commit;
        end loop; end $body$`)
      await writer.query('select pg_advisory_unlock_shared(7, 28)')
    })
    // Other programs' transactions, which end just as fast.
    const strangers = ids.map(async () => {
      const stranger = await connect(otherUrl)
      await stranger.query(`do $body$ begin for n in 1..${each} loop perform pg_current_xact_id(); commit; end loop; end $body$`)
    })
    await Promise.all([...writing, ...strangers])
    expect(await Promise.all(reading)).toEqual(readers.map(() => String(ids.length * each)))
  })

  it('a new consumer of the feed begins with the flushes that are open now, not with older stuck ones', async () => {
    const stranger = await connect(otherUrl)
    await stranger.query('begin')
    await idOf(stranger)
    await flush('before')
    const writer = await openFlush()
    await write(writer, 'before', sessionOf('before', 1).slice(1))
    const place = await store.leaseFeed({ name: 'new', holder: 'test' }, 60_000)
    await writer.query('commit')
    const { items } = await store.lists.feed({}, place ?? undefined)
    expect(items.map(({ item }) => `${item.sessionId} ${item.event.seq}`)).toEqual(['before 2'])
  })
})

describe('a tenant with few events', () => {
  it('a tenant with few events reads little of the tens of thousands of flushes of others', async () => {
    const admin = await connect()
    const count = size(50_000, 200_000)
    await admin.query('set synchronous_commit = off')
    const first = await idOf(admin)
    // Ids of the transactions that the flushes are to have.
    await admin.query(`do $body$ begin for n in 1..${count} loop perform pg_current_xact_id(); commit; end loop; end $body$`)
    const nth = `case when n % 2500 = 1 then 'tiny:' || n % 3 else 'big:' || n % 5000 end`
    await admin.query(`insert into ${schema}.commits (txid, session_id, first_seq, last_seq)
      select (${first} + n)::text::xid8, ${nth}, n, n from generate_series(1, ${count}) n`)
    await admin.query(`insert into ${schema}.events (session_id, seq, epoch, type, at, digest, json)
      select ${nth}, n, '', 'x', now(), '', '{"seq":' || n || '}' from generate_series(1, ${count}) n`)
    await admin.query(`insert into ${schema}.sessions (session_id, agent, status, epoch, flushed_seq, digest, created_at, updated_at)
      select distinct ${nth}, 'support', 'idle', '', 1, '', now(), now() from generate_series(1, ${count}) n`)
    for (const table of ['commits', 'events', 'sessions']) await admin.query(`vacuum analyze ${schema}.${table}`)
    const own = count / 2_500

    const whole = await pagesRead(admin, 'tiny:')
    expect(whole.page.items).toHaveLength(own)
    expect(whole.blocks).toBeLessThan(20 * own)
    expect((await pagesRead(admin, 'tiny:', whole.page.items[own / 2]?.place)).blocks).toBeLessThan(20 * own)
    // The place at the end is behind the other tenants' flushes, too.
    const after = await pagesRead(admin, 'tiny:', whole.page.next)
    expect(after).toMatchObject({ page: { items: [], more: false } })
    expect(after.blocks).toBeLessThan(10)
    // A tenant with many events reads in the order of the flushes, one page at a time.
    const others = await pagesRead(admin, 'big:')
    expect(others.page.items).toHaveLength(200)
    expect(others.blocks).toBeLessThan(200 * 20)
  })

  /** A page of the feed, and how many blocks of tables and indices Postgres read for it. */
  async function pagesRead(on: pg.Client, idPrefix: string, after?: Key): Promise<{ page: FeedRows; blocks: number }> {
    let blocks = 0
    const query: Queryable['query'] = async (text, values = []) => {
      const { rows } = await on.query(`explain (analyze, buffers, format json) ${text}`, [...values])
      const { 'Shared Hit Blocks': hit, 'Shared Read Blocks': readBlocks } = rows[0]['QUERY PLAN'][0].Plan
      if (process.env.PLANS) console.log(hit + readBlocks, JSON.stringify(rows[0]['QUERY PLAN'][0].Plan, undefined, 1))
      blocks += hit + readBlocks
      const types = { getTypeParser: () => (value: string) => value }
      return (await on.query({ text, values: [...values], types: types as never })).rows
    }
    const page = await readFeed({ database: { sequence: (work) => work({ query }) }, schema: schemaOf(schema) }, { idPrefix }, after)
    return { page, blocks }
  }
})
