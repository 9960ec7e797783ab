// The feed over all sessions, against a real Postgres: a reader misses no event, whatever the order in which transactions commit.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import { type Queries, queriesOf } from '../../src/client/queries/queries.ts'
import type { FeedEvent } from '../../src/client/queries/feed.ts'
import type { FeedOptions } from '../../src/client/queries/list-options.ts'
import { defined } from '../../src/session/defined.ts'
import type { EventBody, LogEntry } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { joinWriters } from '../../src/store/postgres/commit-order.ts'
import { schemaOf } from '../../src/store/postgres/schema.ts'
import { until } from '../support/until.ts'
import { EPOCH, logOf, oneRun, received, started } from './store/sessions.ts'

const url = inject('stack').databaseUrl
let schema: string
let store: Store
let queries: Queries
const connections: pg.Client[] = []

beforeEach(async () => {
  schema = `feed_${randomUUID().replaceAll('-', '').slice(0, 16)}`
  store = openStore({ postgres: url, schema })
  queries = queriesOf(store)
  await store.head('nobody')
})
afterEach(async () => {
  for (const connection of connections.splice(0)) await connection.end()
  await store.close()
  const admin = await connect()
  await admin.query(`drop schema if exists ${schema} cascade`)
})
afterAll(async () => {
  for (const connection of connections.splice(0)) await connection.end()
})

async function connect(): Promise<pg.Client> {
  const connection = new pg.Client(url)
  await connection.connect()
  connections.push(connection)
  return connection
}

const open = (id: string, agent = 'support'): EventBody => started({ sessionId: id, agent })
const flush = (id: string, log: LogEntry[], through = store): Promise<unknown> => through.flush(id, EPOCH, log)

/** All events that the feed returns from `after` on. */
async function read(options: FeedOptions = {}): Promise<FeedEvent[]> {
  const found: FeedEvent[] = []
  for await (const event of queries.events(options)) found.push(event)
  return found
}

const names = (events: FeedEvent[]): string[] => events.map(({ sessionId, event }) => `${sessionId} ${event.seq}`)

/** A flush that has begun but not committed: it holds its transaction's number until `commit` is called. */
async function slowFlush(id: string, log: LogEntry[]): Promise<{ commit(): Promise<void> }> {
  const connection = await connect()
  await connection.query('begin')
  await connection.query(joinWriters(schemaOf(schema)))
  await connection.query(`insert into ${schema}.commits (session_id, first_seq, last_seq) values ($1, $2, $3)`, [
    id,
    log[0]?.seq,
    log.at(-1)?.seq,
  ])
  for (const { seq, digest, json } of log) {
    await connection.query(
      `insert into ${schema}.events (session_id, seq, epoch, type, at, digest, json) values ($1, $2, $3, $4, now(), $5, $6)`,
      [id, seq, EPOCH, (JSON.parse(json) as { type: string }).type, digest, json],
    )
  }
  return { commit: () => connection.query('commit').then(() => undefined) }
}

describe('the feed', () => {
  it('the feed returns the events of all sessions, those of each in order, with agent and cursor', async () => {
    await flush('a', logOf([open('a'), ...oneRun(1, 'u')]))
    await flush('b', logOf([open('b', 'sales')]))
    const events = await read()
    expect(names(events)).toEqual([...Array.from({ length: 10 }, (_, n) => `a ${n + 1}`), 'b 1'])
    expect(events[10]).toMatchObject({ sessionId: 'b', agent: 'sales', event: { type: 'session_started' }, cursor: expect.any(String) })
  })

  it('the feed continues from the cursor of any event, even in another process, with exactly the events after it', async () => {
    await flush('a', logOf([open('a'), ...oneRun(1, 'u')]))
    await flush('b', logOf([open('b')]))
    const events = await read()
    for (const [index, { cursor }] of events.entries()) {
      expect(names(await read({ after: cursor }))).toEqual(names(events.slice(index + 1)))
    }
    // A restarted reader has only the text of the cursor.
    const other = openStore({ postgres: url, schema, migrate: 'off' })
    try {
      const rest: FeedEvent[] = []
      for await (const event of queriesOf(other).events({ after: events[4]?.cursor ?? '' })) rest.push(event)
      expect(names(rest)).toEqual(names(events.slice(5)))
    } finally {
      await other.close()
    }
  })

  it('the feed waits for a flush that began earlier and commits later, and then returns it: its cursor skips nothing', async () => {
    const early = logOf([open('early'), received('u')])
    const late = logOf([open('late')])
    await flush('early', early.slice(0, 1))
    const [first] = await read()
    const slow = await slowFlush('early', early.slice(1))
    // This flush begins after the slow one and commits before it.
    await flush('late', late)
    const seen = await read({ after: first?.cursor ?? '' })
    expect(seen).toEqual([])
    await slow.commit()
    const rest = await read({ after: first?.cursor ?? '' })
    expect(names(rest)).toEqual(['early 2', 'late 1'])
  })

  it('the feed returns each event once to a reader that stops and resumes after every event, while flushes overlap', async () => {
    const sessions = ['p', 'q', 'r']
    for (const id of sessions) await flush(id, logOf([open(id)]))
    const expected = sessions.flatMap((id) => [`${id} 1`, `${id} 2`, `${id} 3`])
    const seen: string[] = []
    let after: string | undefined
    const step = async (): Promise<boolean> => {
      for await (const event of queries.events(defined({ after }))) {
        seen.push(`${event.sessionId} ${event.event.seq}`)
        after = event.cursor
        return true
      }
      return false
    }
    const logs = sessions.map((id) => logOf([open(id), received('one'), received('two')]))
    const slow = []
    for (const [index, id] of sessions.entries()) slow.push(await slowFlush(id, logs[index]?.slice(1) ?? []))
    // The newest commits first, and the reader looks after each commit.
    for (const { commit } of slow.reverse()) {
      await commit()
      while (await step());
    }
    await until('the reader has seen all', async () => {
      while (await step());
      return seen.length >= expected.length
    })
    expect([...seen].sort()).toEqual(expected.sort())
  })

  it('the feed leaves out what was not asked for, and moves its cursor past it', async () => {
    await flush('a', logOf([open('a'), ...oneRun(1, 'u')]))
    await flush('b', logOf([open('b', 'sales'), ...oneRun(1, 'u')]))
    await read()
    expect(names(await read({ types: ['run_completed', 'session_started'], agent: 'sales' }))).toEqual(['b 1', 'b 10'])
    const [done] = await read({ types: ['run_completed'] })
    // A cursor is also valid with other options.
    expect(names(await read({ after: done?.cursor ?? '', types: ['session_started'] }))).toEqual(['b 1'])
  })

  it('the feed returns thousands of events in order, even more than one read holds', async () => {
    const many = logOf([open('many'), ...Array.from({ length: 1_200 }, (_, n) => received(`u${n}`))])
    await flush('many', many)
    const large = 'x'.repeat(1_500_000)
    await flush('large', logOf([open('large'), received('a', large), received('b', large), received('c', large), received('d', large)]))
    const events = await read()
    expect(names(events)).toEqual([
      ...Array.from({ length: 1_201 }, (_, n) => `many ${n + 1}`),
      ...Array.from({ length: 5 }, (_, n) => `large ${n + 1}`),
    ])
  })

  it('the feed returns the events of more flushes than one read covers, with and without a filter', async () => {
    const ids = Array.from({ length: 250 }, (_, n) => `many-${n}`)
    for (const id of ids) await flush(id, logOf([open(id), received('a'), received('b'), received('c')]))
    const found = await read()
    expect(names(found)).toEqual(ids.flatMap((id) => [1, 2, 3, 4].map((seq) => `${id} ${seq}`)))
    expect(names(await read({ types: ['session_started'] }))).toEqual(ids.map((id) => `${id} 1`))
  })

  it('the feed does not repeat what a fork inherited', async () => {
    const past = [open('parent'), ...oneRun(1, 'u')]
    await flush('parent', logOf(past))
    const fork = logOf([
      ...past,
      { type: 'forked', sessionId: 'fork', executionId: EPOCH, coreVersion: 2, from: { sessionId: 'parent', seq: 10 }, keys: 'carried' },
      received('own'),
    ])
    await store.flush('fork', EPOCH, fork.slice(0, 10), { inherited: 'parent' })
    await flush('fork', fork.slice(10))
    expect(names(await read()).filter((name) => name.startsWith('fork'))).toEqual(['fork 11', 'fork 12'])
  })

  it('the feed streams events to a follower as they are stored, until the follower stops', async () => {
    const stop = new AbortController()
    const seen: string[] = []
    const reading = (async () => {
      for await (const event of queries.events({ follow: true, signal: stop.signal })) seen.push(`${event.sessionId} ${event.event.seq}`)
    })()
    try {
      await flush('a', logOf([open('a')]))
      await until('the first event is seen', () => seen.includes('a 1'))
      await flush('a', logOf([open('a'), received('u')]))
      await until('the second event is seen', () => seen.length === 2)
    } finally {
      stop.abort()
      await reading
    }
    expect(seen).toEqual(['a 1', 'a 2'])
  })
})
