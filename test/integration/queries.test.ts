// Queries over sessions: lists by page with a cursor, totals, points in a session's past, and refusals, against a real Postgres.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { type Queries, queriesOf, type SessionQueries, sessionQueriesOf } from '../../src/client/queries/queries.ts'
import type { FeedEvent } from '../../src/client/queries/feed.ts'
import type { List } from '../../src/client/queries/list.ts'
import { eventsOf, transcriptAt } from '../../src/client/session/past.ts'
import type { EventBody } from '../../src/session/events.ts'
import { openStore, type Store } from '../../src/store/index.ts'
import { answered, completed, EPOCH, failedAttempt, issued, logOf, oneRun, received, started } from './store/sessions.ts'
import { codeOf } from '../support/codes.ts'
import { messageRowsOf } from '../../src/client/session/message-rows.ts'
import type { SessionEvent } from 'pawl'

const schema = `queries_${randomUUID().replaceAll('-', '').slice(0, 16)}`
let store: Store
let queries: Queries
let database: pg.Client

beforeAll(async () => {
  const url = inject('stack').databaseUrl
  database = new pg.Client(url)
  await database.connect()
  store = openStore({ postgres: url, schema })
  queries = queriesOf(store)
  await store.head('nobody-to-list')
})
afterAll(async () => {
  await store?.close()
  await database?.query(`drop schema if exists ${schema} cascade`)
  await database?.end()
})

async function all<T>(list: List<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}

/** The pages of a list, each requested with the cursor of the one before. */
async function pagesOf<T>(page: (cursor: string | undefined) => List<T>): Promise<T[][]> {
  const pages: T[][] = []
  let cursor: string | undefined
  do {
    const next = await page(cursor)
    pages.push(next.items)
    cursor = next.cursor
  } while (cursor !== undefined)
  return pages
}

const HOUR = 3_600_000
const NOON = Date.UTC(2026, 10, 21, 12)

/** Stores a session whose events begin at `at`, a millisecond apart. */
async function put(id: string, bodies: EventBody[], at = NOON): Promise<void> {
  const timed = bodies.map((body, index) => ({ ...body, at: at + index }))
  await store.flush(id, EPOCH, logOf(timed))
}

const ids = (items: { sessionId: string }[]): string[] => items.map((item) => item.sessionId)
describe('sessions', () => {
  const mine = { agent: 'lister' }
  const open = (id: string, more: object = {}) => started({ sessionId: id, agent: 'lister', tags: [], ...more })

  beforeAll(async () => {
    for (let n = 0; n < 7; n++) await put(`l${n}`, [open(`l${n}`, { tags: n % 2 ? ['odd', 'all'] : ['all'] })], NOON + n * HOUR)
    // Two sessions that were created in the same millisecond.
    await put('l7b', [open('l7b')], NOON + 7 * HOUR)
    await put('l7a', [open('l7a')], NOON + 7 * HOUR)
    await put('failed', [
      open('failed', { agent: 'lister' }),
      received('u'),
      { type: 'run_started', run: 1, messageId: 'u' },
      { type: 'error_entered', run: 1, code: 'max_turns', reason: 'too many', strategy: 'manual' },
    ])
  })

  it('sessions are listed newest first, and the same page by page as all at once', async () => {
    const whole = ids(await all(queries.sessions.list(mine)))
    expect(whole.slice(0, 4)).toEqual(['l7a', 'l7b', 'l6', 'l5'])
    expect(whole).toHaveLength(10)
    const pages = await pagesOf((cursor) => queries.sessions.list({ ...mine, limit: 3, ...(cursor && { cursor }) }))
    expect(pages.map((page) => page.length)).toEqual([3, 3, 3, 1])
    expect(ids(pages.flat())).toEqual(whole)
    expect(ids(await all(queries.sessions.list({ ...mine, limit: 1 })))).toEqual(whole)
  })

  it('sessions are not skipped or repeated when others start between two pages', async () => {
    const first = await queries.sessions.list({ ...mine, tag: 'odd', limit: 1 })
    await put('latecomer', [open('latecomer', { tags: ['odd'] })], NOON + 20 * HOUR)
    const rest = await pagesOf((cursor) => queries.sessions.list({ ...mine, tag: 'odd', limit: 1, cursor: cursor ?? first.cursor ?? '' }))
    expect(ids([...first.items, ...rest.flat()])).toEqual(['l5', 'l3', 'l1'])
  })

  it('sessions are found by status, tags and creation time', async () => {
    expect(ids(await all(queries.sessions.list({ ...mine, status: 'error' })))).toEqual(['failed'])
    expect(ids(await all(queries.sessions.list({ ...mine, status: ['error', 'waiting'] })))).toEqual(['failed'])
    expect(ids(await all(queries.sessions.list({ ...mine, tags: ['odd', 'all'] })))).toEqual(['l5', 'l3', 'l1'])
    const span = { since: new Date(NOON + 2 * HOUR), until: NOON + 4 * HOUR }
    expect(ids(await all(queries.sessions.list({ ...mine, ...span })))).toEqual(['l3', 'l2'])
    expect(ids(await all(queries.sessions.list({ ...mine, since: '2026-11-21T18:00:00Z', until: span.until + 3 * HOUR })))).toEqual(['l6'])
  })

  it('sessions show why they failed, whom they are for and what they have used', async () => {
    expect(await queries.sessions.get('failed')).toMatchObject({
      sessionId: 'failed',
      status: 'error',
      error: { code: 'max_turns', run: 1 },
      context: { tenant: 't1' },
      createdAt: new Date(NOON),
      parent: null,
      waiting: 0,
      checkpoint: 0,
      prunedAt: null,
      erasedAt: null,
      flushedAt: expect.any(Date),
    })
    expect(await codeOf(queries.sessions.get('nobody-to-list'))).toBe('session_not_found')
  })
})

describe('an invalid query', () => {
  it.each<[string, () => PromiseLike<unknown>]>([
    ['a limit of 0', () => queries.sessions.list({ limit: 0 })],
    ['a limit over 1,000', () => queries.errors({ limit: 1_001 })],
    ['a limit that is text', () => queries.errors({ limit: '5' as never })],
    ['an unknown status', () => queries.sessions.list({ status: 'bored' as never })],
    ['no status at all', () => queries.toolCalls({ status: [] })],
    ['an invalid moment', () => queries.errors({ since: 'yesterday' })],
    ['a misspelt option', () => queries.sessions.list({ agnet: 'x' } as never)],
    ['no session', () => queries.messages({} as never)],
    ['an unknown sum', () => queries.usage({ by: 'hour' as never })],
    ['a list of sums', () => queries.usage({ by: ['day'] as never })],
    ['an unknown type of event', () => first(queries.events({ types: ['run_ended' as never] }))],
    ['empty text', () => queries.toolCalls({ tool: '' })],
  ])('an invalid query with %s is refused as invalid_option', async (_, ask) => {
    expect(await codeOf(ask())).toBe('invalid_option')
  })

  async function first<T>(items: AsyncIterable<T>): Promise<T | undefined> {
    for await (const item of items) return item
    return undefined
  }

  it('an invalid query with a cursor that is malformed, truncated or from another list is refused as invalid_cursor', async () => {
    const { cursor = '' } = await queries.sessions.list({ agent: 'lister', limit: 1 })
    expect(cursor).not.toBe('')
    for (const wrong of ['nonsense', cursor.slice(0, -4), Buffer.from('[1]').toString('base64url')]) {
      expect(await codeOf(queries.sessions.list({ agent: 'lister', cursor: wrong }))).toBe('invalid_cursor')
    }
    expect(await codeOf(queries.sessions.list({ agent: 'other', cursor }))).toBe('invalid_cursor')
    expect(await codeOf(queries.errors({ cursor }))).toBe('invalid_cursor')
    expect(await codeOf(first(queries.events({ after: cursor })))).toBe('invalid_cursor')
  })

  it('an invalid query with a cursor whose parts were changed is refused as well', async () => {
    const { cursor = '' } = await queries.sessions.list({ agent: 'lister', limit: 1 })
    const [tag] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as string[]
    for (const parts of [[tag], [tag, 'x', 'y'], [tag, 1.5, 'y'], [tag, 1, null]]) {
      const changed = Buffer.from(JSON.stringify(parts)).toString('base64url')
      expect(await codeOf(queries.sessions.list({ agent: 'lister', cursor: changed }))).toBe('invalid_cursor')
    }
  })

  it('an invalid query with a cursor that names a position outside of what Postgres can compare is refused as well', async () => {
    const altered = (cursor: string, parts: unknown[]): string => {
      const [tag] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as string[]
      return Buffer.from(JSON.stringify([tag, ...parts])).toString('base64url')
    }
    const { cursor = '' } = await queries.sessions.list({ agent: 'lister', limit: 1 })
    for (const parts of [
      [9e15, 'x'],
      [1, '\0'],
    ])
      expect(await codeOf(queries.sessions.list({ agent: 'lister', cursor: altered(cursor, parts) }))).toBe('invalid_cursor')
    const { cursor: after = '' } = (await first(queries.events())) ?? {}
    for (const parts of [
      ['x', '', 0],
      ['1', '\0', 0],
      ['99999999999999999999999', '', 0],
    ])
      expect(await codeOf(first(queries.events({ after: altered(after, parts) })))).toBe('invalid_cursor')
  })

  it('an invalid query with NUL or lone surrogates finds nothing and breaks nothing', async () => {
    expect(await all(queries.sessions.list({ agent: 'a\0b', tags: ['\ud800'] }))).toEqual([])
    expect(await all(queries.errors({ context: 'tool:\0' }))).toEqual([])
    expect(await codeOf(queries.messages({ session: '\0' }))).toBe('session_not_found')
  })

  it('every invalid query without a store says what to do', async () => {
    const none = queriesOf(undefined)
    expect(await codeOf(none.sessions.list())).toBe('no_store')
    expect(await codeOf(none.messages({ session: 's' }))).toBe('no_store')
    expect(await codeOf(sessionQueriesOf(undefined, 's').latestCheckpoint())).toBe('no_store')
    await expect(none.sessions.get('s')).rejects.toThrow(/DATABASE_URL/)
  })

  it('an invalid query about an unknown session is refused, unlike one about a session that has nothing', async () => {
    await put('empty', [started({ sessionId: 'empty', agent: 'quiet' })])
    const of = (id: string): SessionQueries => sessionQueriesOf(store, id)
    expect(await all(queries.messages({ session: 'empty' }))).toEqual([])
    expect(await of('empty').latestCheckpoint()).toBeNull()
    expect(await of('empty').errors()).toEqual([])
    for (const ask of ['checkpoints', 'latestCheckpoint', 'toolCalls', 'errors', 'archivedMessages'] as const) {
      expect(await codeOf(of('nobody-to-list')[ask]())).toBe('session_not_found')
    }
    expect(await codeOf(queries.checkpoints({ session: 'nobody-to-list' }))).toBe('session_not_found')
  })
})

describe('a session', () => {
  const log: EventBody[] = [
    started({ sessionId: 'whole', agent: 'whole' }),
    ...oneRun(1, 'u1'),
    { type: 'checkpoint_made', version: 1, run: 1, turn: 2, reasons: ['turn'], lastMessageId: 'm_1_2' },
    ...oneRun(2, 'u2'),
    { type: 'checkpoint_made', version: 2, run: 2, turn: 2, reasons: ['nightly'], by: 'ops', lastMessageId: 'm_2_2' },
    received('u3'),
    { type: 'rolled_back', toSeq: 11, upToSeq: 22, target: { checkpoint: 1 }, lastMessageId: 'm_1_2', effects: [], by: 'ana' },
    ...oneRun(3, 'u4'),
    received('u5'),
  ]
  const of = (): SessionQueries => sessionQueriesOf(store, 'whole')
  const messageIds = (rows: { messageId: string }[]): string[] => rows.map((row) => row.messageId)
  const FIRST = ['u1', 'm_1_1', 'r_1_1', 'm_1_2']
  const SECOND = ['u2', 'm_2_1', 'r_2_1', 'm_2_2']
  const THIRD = ['u4', 'm_3_1', 'r_3_1', 'm_3_2']

  beforeAll(() => put('whole', log))

  it('a session has its messages in order, page by page, with waiting messages last', async () => {
    const pages = await pagesOf((cursor) => queries.messages({ session: 'whole', limit: 4, ...(cursor && { cursor }) }))
    expect(pages.map(messageIds)).toEqual([FIRST, THIRD, ['u5']])
    expect(pages[0]?.[1]).toMatchObject({ sessionId: 'whole', agent: 'whole', role: 'assistant', callIds: ['t_1_1_0'], blobs: [] })
    expect(pages[0]?.[2]?.callIds).toEqual(['t_1_1_0'])
  })

  it('a session keeps the messages that were rolled back', async () => {
    const archived = await of().archivedMessages()
    expect(messageIds(archived).sort()).toEqual([...SECOND, 'u3'].sort())
    expect(archived[0]).toMatchObject({ why: 'rolled_back', archivedSeq: 23, archivedAt: expect.any(Date) })
  })

  it('a session lists its checkpoints and marks those that were rolled back', async () => {
    expect(await of().checkpoints()).toMatchObject([
      { version: 2, reasons: ['nightly'], by: 'ops', seq: 21, upToSeq: 21, lastMessageId: 'm_2_2', archivedSeq: 23, run: 2, turn: 2 },
      { version: 1, reasons: ['turn'], by: null, seq: 11, lastMessageId: 'm_1_2', archivedSeq: null },
    ])
    expect(await of().latestCheckpoint()).toMatchObject({ version: 1 })
    const pages = await pagesOf((cursor) => queries.checkpoints({ session: 'whole', limit: 1, ...(cursor && { cursor }) }))
    expect(pages.flat().map(({ version }) => version)).toEqual([2, 1])
  })

  it('a session shows its transcript as it was at any point, even in its archived past', async () => {
    const read = (after: number) => store.events('whole', { after, limit: 3 })
    const at = async (target: object): Promise<string[]> => messageIds(await transcriptAt(read, target as never, async (page) => [...page]))
    expect(await at({ checkpoint: 1 })).toEqual(FIRST)
    expect(await at({ checkpoint: 2 })).toEqual([...FIRST, ...SECOND])
    expect(await at({ run: 2 })).toEqual(FIRST)
    expect(await at({ message: 'u2' })).toEqual(FIRST)
    expect(await at({ run: 3 })).toEqual(FIRST)
    expect(await at({ message: 'u1' })).toEqual([])
    for (const [target, code] of [
      [{ checkpoint: 9 }, 'checkpoint_not_found'],
      [{ message: 'nobody said' }, 'message_not_found'],
      [{ run: 9 }, 'run_not_found'],
      [{}, 'invalid_target'],
    ] as const) {
      await expect(at(target)).rejects.toThrow(expect.objectContaining({ code }))
    }
  })

  it('a session has the same current transcript in its events as in the store', async () => {
    const events: SessionEvent[] = []
    for await (const event of eventsOf((after) => store.events('whole', { after }))) events.push(event)
    const now = await all(queries.messages({ session: 'whole' }))
    expect(messageRowsOf(events)).toMatchObject(
      now.map(({ messageId, content, run, turn, kind }) => ({ messageId, content, run, turn, kind })),
    )
    expect(messageRowsOf(events)).toHaveLength(now.length)
  })
})

describe('tool calls and errors', () => {
  const call = (run: number, index: number) => ({ run, turn: 1, callId: `t_${run}_1_${index}`, tool: 'refund' })

  beforeAll(async () => {
    for (let n = 0; n < 3; n++) {
      await put(
        `c${n}`,
        [
          started({ sessionId: `c${n}`, agent: 'caller' }),
          received('u'),
          { type: 'run_started', run: 1, messageId: 'u' },
          { type: 'turn_started', run: 1, turn: 1, takes: ['u'] },
          { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1, 'overloaded') },
          answered(1, 1, [{ n }, { n }, { n }]),
          issued(1, 1, 0),
          completed(1, 1, 0),
          issued(1, 1, 1),
          { type: 'tool_attempt_failed', ...call(1, 1), error: failedAttempt(1, 'lost') },
          { type: 'tool_unknown', ...call(1, 1), attempt: 1, message: 'reply lost' },
          issued(1, 1, 2),
        ],
        NOON + n * HOUR,
      )
    }
  })

  it('tool calls and errors are found by status across all sessions, newest first', async () => {
    const unknown = await all(queries.toolCalls({ status: 'unknown', tool: 'refund' }))
    expect(unknown.map(({ sessionId, callId }) => `${sessionId} ${callId}`)).toEqual(['c2 t_1_1_1', 'c1 t_1_1_1', 'c0 t_1_1_1'])
    expect(unknown[0]).toMatchObject({
      agent: 'caller',
      effect: 'external',
      attempt: 1,
      milestones: [],
      error: { code: 'outcome_unknown' },
    })
  })

  it('tool calls and errors are found by session and time, page by page', async () => {
    const pages = await pagesOf((cursor) => queries.toolCalls({ session: 'c1', limit: 2, ...(cursor && { cursor }) }))
    expect(pages.map((page) => page.map(({ callId }) => callId))).toEqual([['t_1_1_2', 't_1_1_1'], ['t_1_1_0']])
    const status: 'unknown'[] = ['unknown']
    expect(ids(await all(queries.toolCalls({ status, since: NOON + HOUR, until: NOON + 2 * HOUR })))).toEqual(['c1'])
    expect((await sessionQueriesOf(store, 'c1').toolCalls()).map(({ callId }) => callId)).toEqual(['t_1_1_0', 't_1_1_1', 't_1_1_2'])
  })

  it('tool calls and errors are found by idempotency key and by effect id, each with an index', async () => {
    expect(ids(await all(queries.toolCalls({ key: 'key-t_1_1_1' })))).toEqual(['c2', 'c1', 'c0'])
    expect(await all(queries.toolCalls({ key: 'key-t_1_1_1', session: 'c1' }))).toMatchObject([{ status: 'unknown', key: 'key-t_1_1_1' }])
    const effects = await all(queries.toolCalls({ effectId: 're_0', session: 'c0' }))
    expect(effects).toMatchObject([{ callId: 't_1_1_0', effectId: 're_0' }])
    expect(await all(queries.toolCalls({ effectId: 're_9' }))).toEqual([])
    await database.query('set enable_seqscan = off')
    for (const column of ['idempotency_key', 'effect_id']) {
      const { rows } = await database.query(`explain select * from "${schema}".tool_calls where ${column} = 'x'`)
      expect(JSON.stringify(rows)).toMatch(/Index Cond: \(\(?\w+ = 'x'/)
    }
  })

  it('tool calls and errors are found by context and time, with the attempt of each error', async () => {
    expect(ids(await all(queries.errors({ context: 'tool:refund', since: NOON + HOUR })))).toEqual(['c2', 'c1'])
    const pages = await pagesOf((cursor) => queries.errors({ context: 'model', limit: 1, ...(cursor && { cursor }) }))
    expect(ids(pages.flat())).toEqual(['c2', 'c1', 'c0'])
    expect(await sessionQueriesOf(store, 'c0').errors()).toMatchObject([
      { context: 'model', attempt: 1, message: 'overloaded', nextDelayMs: 500, agent: 'caller' },
      { context: 'tool:refund', attempt: 1, message: 'lost', callId: 't_1_1_1' },
    ])
  })
})

describe('usage', () => {
  const priced = (model: string) => (body: EventBody) => (body.type === 'model_completed' ? { ...body, model } : body)

  beforeAll(async () => {
    await put(
      'u-a',
      [started({ sessionId: 'u-a', agent: 'thrifty' }), ...oneRun(1, 'u').map(priced('nameless'))],
      Date.UTC(2026, 0, 1, 23, 59),
    )
    await put(
      'u-b',
      [started({ sessionId: 'u-b', agent: 'lavish' }), ...oneRun(1, 'u').map(priced('claude-opus-4-5'))],
      Date.UTC(2026, 0, 2),
    )
    await put(
      'u-c',
      [started({ sessionId: 'u-c', agent: 'lavish' }), ...oneRun(1, 'u').map(priced('claude-opus-4-5'))],
      Date.UTC(2026, 0, 2, 1),
    )
  })
  const january = { since: '2026-01-01', until: '2026-02-01' }

  it('usage is totalled by agent, highest cost first, with the number of unpriced calls', async () => {
    const sums = await all(queries.usage({ by: 'agent', ...january }))
    expect(sums).toMatchObject([
      { key: 'lavish', calls: 4, unpriced: 0, usage: { input_tokens: 40, output_tokens: 20, cache_read_input_tokens: 12 } },
      { key: 'thrifty', calls: 2, unpriced: 2, usd: 0 },
    ])
    expect(sums[0]?.usd).toBeGreaterThan(0)
  })

  it('usage is totalled by day in UTC, newest first, by model and by session, page by page', async () => {
    const keys = async (by: 'day' | 'model' | 'session'): Promise<string[]> =>
      (await pagesOf((cursor) => queries.usage({ by, ...january, limit: 1, ...(cursor && { cursor }) }))).flat().map(({ key }) => key)
    expect(await keys('day')).toEqual(['2026-01-02', '2026-01-01'])
    expect(await keys('model')).toEqual(['claude-opus-4-5', 'nameless'])
    expect(await keys('session')).toEqual(['u-b', 'u-c', 'u-a'])
  })

  it('usage of one session is totalled by turn, in order, page by page', async () => {
    const turns = [1, 2, 10, 11].flatMap((run) => oneRun(run, `t${run}`))
    await put('by-turn', [started({ sessionId: 'by-turn', agent: 'turning' }), ...turns], Date.UTC(2026, 5, 1))
    const pages = await pagesOf((cursor) => queries.usage({ by: 'turn', session: 'by-turn', limit: 3, ...(cursor && { cursor }) }))
    const found = pages.flat()
    expect(found.map(({ key }) => key)).toEqual([1, 2, 10, 11].flatMap((run) => [`${run}.1`, `${run}.2`]))
    expect(found.every(({ calls }) => calls === 1)).toBe(true)
    const [whole] = (await queries.usage({ by: 'session', session: 'by-turn' })).items
    expect(found.reduce((sum, { usage }) => sum + usage.output_tokens, 0)).toBe(whole?.usage.output_tokens)
    expect((await queries.usage({ by: 'turn', session: 'by-turn', until: Date.UTC(2026, 5, 1) })).items).toEqual([])
    expect(await codeOf(queries.usage({ by: 'turn' }))).toBe('invalid_option')
  })

  it('usage counts the calls of a time span to the millisecond, wherever in a day it begins and ends', async () => {
    const DAY = 24 * HOUR
    const first = Date.UTC(2026, 1, 1)
    for (let n = 0; n < 12; n++) {
      await put(`span-${n}`, [started({ sessionId: `span-${n}`, agent: `spanning-${n % 2}` }), ...oneRun(1, 'u')], first + n * 7 * HOUR)
    }
    const { rows } = await database.query<{ session_id: string; agent: string; at: Date }>(
      `select session_id, agent, at from ${schema}.token_usage where session_id like 'span-%'`,
    )
    expect(rows).toHaveLength(24)
    const calls = rows.map(({ session_id, agent, at }) => ({ session: session_id, agent, day: at.toISOString().slice(0, 10), at: +at }))
    const moments = [0, DAY, 2 * DAY, 3 * DAY, ...calls.slice(0, 12).flatMap(({ at }) => [at - first, at - first + 1])].map(
      (ms) => first + ms,
    )
    for (const since of [undefined, ...moments]) {
      for (const until of [first + 4 * DAY, ...moments]) {
        const within = calls.filter(({ at }) => at >= (since ?? Date.UTC(2026, 0, 31)) && at < until)
        for (const by of ['day', 'agent', 'session'] as const) {
          const span = { since: since ?? Date.UTC(2026, 0, 31), until, limit: 100 }
          const found = (await queries.usage({ by, ...span })).items.map(({ key, calls }) => [key, calls] as const)
          const counts = new Map<string, number>()
          for (const call of within) counts.set(call[by], (counts.get(call[by]) ?? 0) + 1)
          expect(new Map(found), `by ${by} from ${since} to ${until}`).toEqual(counts)
        }
      }
    }
    expect((await queries.usage({ by: 'session', session: 'span-3', until: '2027-01-01' })).items).toMatchObject([
      { key: 'span-3', calls: 2 },
    ])
    expect((await queries.usage({ by: 'day', since: '9999-12-31T12:00:00Z' })).items).toEqual([])
  })

  it('usage follows when calls are given a price, moved to another day or deleted', async () => {
    await put('repriced', [started({ sessionId: 'repriced' }), ...oneRun(1, 'u').map(priced('nameless'))], Date.UTC(2026, 3, 1))
    const sum = async () => (await queries.usage({ by: 'day', session: 'repriced' })).items
    const change = (what: string) => database.query(`${what} where session_id = 'repriced' and turn = 1`)
    await change(`update ${schema}.token_usage set usd = 0.25`)
    expect(await sum()).toMatchObject([{ key: '2026-04-01', calls: 2, unpriced: 1, usd: 0.25, usage: { input_tokens: 20 } }])
    await change(`update ${schema}.token_usage set at = at + interval '1 day'`)
    expect(await sum()).toMatchObject([
      { key: '2026-04-02', calls: 1, unpriced: 0, usd: 0.25 },
      { key: '2026-04-01', calls: 1, unpriced: 1, usd: 0 },
    ])
    await change(`delete from ${schema}.token_usage`)
    expect(await sum()).toMatchObject([{ key: '2026-04-01', calls: 1, unpriced: 1, usd: 0, usage: { input_tokens: 10 } }])
  })
})

describe('the sessions of one id prefix', () => {
  /** The tenants' ids differ by one character around the delimiter, and contain characters that are special in patterns. */
  const TENANTS = ['t_1:', 't_1', 'tx1:', 'T_1:', 't_1:%', 'u_1:']
  const isFirstTenant = (id: string): boolean => id.startsWith('t_1:')
  const since = NOON - HOUR

  beforeAll(async () => {
    for (const [n, tenant] of TENANTS.entries()) {
      const id = `${tenant}session`
      await put(
        id,
        [
          started({ sessionId: id, agent: 'tenancy' }),
          received('u'),
          { type: 'run_started', run: 1, messageId: 'u' },
          { type: 'turn_started', run: 1, turn: 1, takes: ['u'] },
          { type: 'model_attempt_failed', run: 1, turn: 1, error: failedAttempt(1) },
          answered(1, 1, [{ n }]),
          issued(1, 1, 0),
          { type: 'tool_unknown', run: 1, turn: 1, callId: 't_1_1_0', tool: 'refund', attempt: 1, message: 'lost', ask: true },
          { type: 'error_entered', run: 1, code: 'max_turns', reason: 'too many', strategy: 'manual' },
          { type: 'error_entered', run: 1, code: 'max_turns', reason: 'too many', strategy: 'manual' },
        ],
        NOON + n,
      )
    }
  })

  async function eventsOfFeed(idPrefix: string): Promise<FeedEvent[]> {
    const events: FeedEvent[] = []
    for await (const event of queries.events({ idPrefix })) events.push(event)
    return events
  }

  it('lists for one id prefix show only its sessions', async () => {
    const idPrefix = 't_1:'
    const agent = 'tenancy'
    const day = { since, until: since + 2 * HOUR }
    const lists = {
      sessions: ids(await all(queries.sessions.list({ agent, idPrefix }))),
      pending: ids(await all(queries.pending.list({ agent, idPrefix }))),
      errors: ids(await all(queries.errors({ idPrefix }))),
      toolCalls: ids(await all(queries.toolCalls({ idPrefix }))),
      usage: (await all(queries.usage({ by: 'session', idPrefix }))).map(({ key }) => key),
      dailyUsage: (await all(queries.usage({ by: 'session', idPrefix, ...day }))).map(({ key }) => key),
      overview: ids((await queries.overview({ agent, idPrefix })).items),
      repeated: ids((await queries.failures({ agent, idPrefix, since })).repeated),
      feed: ids(await eventsOfFeed(idPrefix)),
    }
    for (const [name, found] of Object.entries(lists)) {
      expect([...new Set(found)].sort(), name).toEqual(['t_1:%session', 't_1:session'])
    }
  })

  it('totals for one id prefix count only its sessions', async () => {
    const idPrefix = 't_1:'
    expect(TENANTS.filter(isFirstTenant)).toHaveLength(2)
    expect((await queries.overview({ agent: 'tenancy', idPrefix })).sessions).toMatchObject({ error: 2 })
    expect(await all(queries.usage({ by: 'agent', idPrefix }))).toMatchObject([{ key: 'tenancy', calls: 2 }])
    expect(await all(queries.usage({ by: 'day', idPrefix }))).toMatchObject([{ calls: 2 }])
    const { agents, timeInError } = await queries.failures({ idPrefix, since })
    expect(agents).toMatchObject([{ agent: 'tenancy', failed: 2 }])
    expect(timeInError).toMatchObject([{ times: 4 }])
  })

  it('a cursor for one id prefix is refused for another', async () => {
    const { cursor = '' } = await queries.sessions.list({ idPrefix: 't_1:', limit: 1 })
    expect(ids((await queries.sessions.list({ idPrefix: 't_1:', limit: 1, cursor })).items)).toEqual(['t_1:session'])
    expect(await codeOf(queries.sessions.list({ idPrefix: 'u_1:', limit: 1, cursor }))).toBe('invalid_cursor')
  })
})
