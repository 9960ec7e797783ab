// Budgets that sessions share: of a tag or an agent, for each day or month.
import { randomUUID } from 'node:crypto'
import { tmpdir } from 'node:os'
import { ModelError, type SessionEvent } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { type Access, createHandler } from 'pawl/service'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { spentBy } from '../../src/session/spending/budget.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { stage, type Stage } from '../support/scenes.ts'
import { until } from '../support/until.ts'
import { webClient } from '../support/web.ts'
import { runPawl } from './cli/processes.ts'

/** A ten-thousandth of a dollar per output token; input costs nothing. A call reserves 0.1 USD. */
const OF_MODEL = { price: { input: 0, output: 100 }, maxTokens: 1_000 }
const TIMEOUT = { timeout: 30_000 }
let here: Deployment
let priced: Stage
let free: Stage
let client: pg.Client

beforeAll(async () => {
  here = await deploy()
  priced = stage({ name: `priced-${randomUUID().slice(0, 8)}` }, OF_MODEL)
  free = stage({ name: `free-${randomUUID().slice(0, 8)}`, recovery: { automatic: [] } })
  client = new pg.Client(here.stack.databaseUrl)
  await client.connect()
  await here.startWorker({ agents: [priced.agent, free.agent] })
})
afterAll(async () => {
  await client?.end()
  await here?.stop()
})

const usageOf = (output: number) => ({ input_tokens: 0, output_tokens: output, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 })
const using = (output: number) => ({ content: [{ type: 'text' as const, text: 'done' }], usage: usageOf(output) })
const open = (tag: string, output = 800): SessionHandle => priced.play(here.pawl, { model: () => using(output) }, { tags: [tag] }).session
const say = async (session: SessionHandle) => (await session.send('go')).result(TIMEOUT)

/** Waits until as many workers know of the budget: they have set a part of it aside for a call that costs nothing. */
async function set(options: Parameters<typeof here.pawl.budgets.set>[0], workers = 1) {
  const budget = await here.pawl.budgets.set(options)
  await until('workers know of it', async () => {
    await say(open(options.tag ?? 'none', 0))
    const { rowCount } = await client.query('select from pawl.shared_batches where budget_id = $1 and until > now()', [budget.id])
    return rowCount === workers
  })
  return budget
}
const find = async (id: string) => (await here.pawl.budgets.list()).find((one) => one.id === id)
const spentIn = (events: readonly SessionEvent[]): number =>
  Math.round(events.reduce((sum, event) => sum + (spentBy(event)?.usd ?? 0), 0) * 1e6) / 1e6

describe('a budget that sessions share', () => {
  it('a budget that sessions share stops the sessions with its tag once it is spent, and lets them continue once it is raised', async () => {
    const tag = `tenant:${randomUUID()}`
    const budget = await set({ tag, maxUsd: 0.3, per: 'day', by: 'ann' })
    expect(budget).toMatchObject({
      id: `day tag ${tag}`,
      tag,
      agent: null,
      maxUsd: 0.3,
      timeZone: 'UTC',
      onOutage: 'continue',
      setBy: 'ann',
    })
    const sessions = [open(tag), open(tag), open(tag)]
    for (const session of sessions) await say(session)
    const late = open(tag)
    const run = await late.send('go')
    await until('it is stopped', async () => (await late.state()).error?.code === 'budget_exhausted')
    const { error } = await late.state()
    expect(error).toMatchObject({
      strategy: 'automatic',
      reason: expect.stringContaining(`The shared budget of the tag ${tag} for the day`),
    })
    // Other sessions do not share it.
    await say(open('other'))
    await until('all is counted', async () => (await find(budget.id))?.spentUsd === 0.24)
    await here.pawl.budgets.set({ tag, maxUsd: 1, per: 'day' })
    await run.result(TIMEOUT)
    expect(ofType(await eventsOf(late), 'recovery_ended')).toMatchObject([{ strategy: 'automatic' }])
    const all = await Promise.all([...sessions, late].map((session) => eventsOf(session)))
    await until('the sum is that of the events', async () => (await find(budget.id))?.spentUsd === spentIn(all.flat()))
    expect(spentIn(all.flat())).toBe(0.32)
  })

  it('a budget that sessions share never spends more than its limit, however many sessions on two workers ask at once', async () => {
    const tag = `tenant:${randomUUID()}`
    const second = await here.startWorker({ agents: [priced.agent, free.agent] })
    try {
      // Unlike the default, it holds while Postgres is slow.
      const { id } = await set({ tag, maxUsd: 1, per: 'month', onOutage: 'stop' }, 2)
      const sessions = Array.from({ length: 16 }, () => open(tag, 1_000))
      const runs = await Promise.all(sessions.map((session) => session.send('go')))
      await until(
        'each has ended or waits',
        async () => {
          const states = await Promise.all(sessions.map((session) => session.state()))
          // While Postgres is slow, sessions wait because the budget cannot be read, and then continue.
          const others = states.filter(({ status, error, seq }) => seq <= 3 || (status !== 'idle' && error?.code !== 'budget_exhausted'))
          expect(others.map(({ status, seq, error }) => ({ status, seq, error }))).toEqual([])
          return true
        },
        60_000,
      )
      const spent = spentIn((await Promise.all(sessions.map((session) => eventsOf(session)))).flat())
      expect(spent).toBeLessThanOrEqual(1)
      expect(spent).toBeGreaterThanOrEqual(0.5)
      expect(await here.pawl.budgets.remove(id)).toBe(true)
      expect(await here.pawl.budgets.remove(id)).toBe(false)
      await Promise.all(runs.map((run) => run.result({ timeout: 60_000 })))
    } finally {
      // What one worker has set aside, another one may spend only after a minute.
      await second.stop()
    }
  })

  it('a budget that sessions share and that cannot be read stops a session; once it is read and exhausted, the session says so', async () => {
    const tag = `tenant:${randomUUID()}`
    const { id } = await set({ tag, maxUsd: 0.15, per: 'day', onOutage: 'stop' })
    await say(open(tag))
    await client.query('begin')
    await client.query('select from pawl.shared_budgets where id = $1 for update', [id])
    const session = open(tag)
    const run = await session.send('go')
    try {
      await until('the budget cannot be read', async () => (await session.state()).error)
      expect((await session.state()).error).toMatchObject({
        code: 'archive_unavailable',
        reason: expect.stringContaining('cannot be read'),
      })
      expect((await session.status()).waitsFor).toMatchObject([{ for: 'postgres' }])
    } finally {
      await client.query('rollback')
    }
    const exhausted = { code: 'budget_exhausted', reason: expect.stringContaining('is exhausted'), strategy: 'automatic' }
    await until('it is exhausted', async () => (await session.state()).error?.code === 'budget_exhausted', 40_000)
    expect((await session.state()).error).toMatchObject(exhausted)
    await here.pawl.budgets.set({ tag, maxUsd: 1, per: 'day' })
    await run.result(TIMEOUT)
    const errors = ofType(await eventsOf(session), 'error_entered')
    expect(errors).toMatchObject([{ code: 'archive_unavailable' }, exhausted])
  })

  it('a budget that sessions share has room again when its period ends, and the session continues by itself', async () => {
    const tag = `tenant:${randomUUID()}`
    await set({ tag, maxUsd: 0.15, per: 'day', timeZone: 'Asia/Kolkata' })
    const session = open(tag)
    await say(session)
    const run = await session.send('again')
    await until('it is stopped', async () => (await session.state()).error?.code === 'budget_exhausted')
    await until('it is stored', async () => {
      const { rowCount } = await client.query(`update pawl.spend set at = at - interval '1 day' where session_id = '${session.id}'`)
      return rowCount === 1
    })
    await run.result(TIMEOUT)
  })

  it('a budget that sessions share counts failed attempts, and is refused by a model without a price', async () => {
    const tag = `tenant:${randomUUID()}`
    const { id } = await set({ tag, maxUsd: 5, per: 'day' })
    let attempts = 0
    const { session } = priced.play(
      here.pawl,
      {
        model: () => {
          attempts += 1
          if (attempts === 1) throw new ModelError('stream_cut', 'cut off', { retryable: true, phase: 'stream' })
          return using(100)
        },
      },
      { tags: [tag] },
    )
    await say(session)
    const events = await eventsOf(session)
    expect(spentIn(events)).toBeGreaterThan(0.01)
    await until('it is counted', async () => (await find(id))?.spentUsd === spentIn(events))
    const unpriced = free.play(here.pawl, { model: () => 'free?' }, { tags: [tag] }).session
    expect(await (await unpriced.send('go')).settled(TIMEOUT)).toMatchObject({ status: 'failed', code: 'unpriced_model' })
  })

  it('a budget that sessions of an agent share warns at four fifths', async () => {
    const { id } = await set({ agent: priced.agent.name, maxUsd: 50, per: 'month' })
    expect(await find(id)).toMatchObject({ agent: priced.agent.name, tag: null, warnedAt: null })
    await say(open('none', 30_000))
    const spentUsd = await until('it is counted', async () => (await find(id))?.spentUsd)
    await here.pawl.budgets.set({ agent: priced.agent.name, maxUsd: Math.round(spentUsd * 1.2e6) / 1e6 + 0.1, per: 'month' })
    const session = open('none', 1)
    await until('it warns', async () => {
      await say(session)
      return (await find(id))?.warnedAt != null
    })
    await say(session)
    const warnings = ofType(await eventsOf(session), 'budget_warning')
    expect(warnings).toMatchObject([{ scope: 'shared', unit: 'usd', budget: id, run: expect.any(Number), spent: expect.any(Number) }])
    expect(warnings[0]!.spent).toBeGreaterThanOrEqual(warnings[0]!.limit * 0.8)
    expect((await session.state()).status).toBe('idle')
    await here.pawl.budgets.remove(id)
  })

  it('a budget that sessions share gets nothing back when sessions are erased, until the period ends', async () => {
    const tag = `tenant:${randomUUID()}`
    const { id } = await set({ tag, maxUsd: 10, per: 'month' })
    const sessions = [open(tag), open(tag)]
    for (const session of sessions) await say(session)
    await until('all is counted', async () => (await find(id))?.spentUsd === 0.16)
    for (const session of sessions) {
      await here.pawl.erase(session.id, { by: 'dpo', force: true })
      expect(await find(id)).toMatchObject({ spentUsd: 0.16 })
    }
    await say(open(tag))
    await until('what is spent later counts, too', async () => (await find(id))?.spentUsd === 0.24)
    await client.query("update pawl.shared_budgets set erased_at = erased_at - interval '31 days' where id = $1", [id])
    expect(await find(id)).toMatchObject({ spentUsd: 0.08 })
    await here.pawl.budgets.remove(id)
  })

  it('a budget that sessions share is refused with options that make no sense', async () => {
    const { budgets } = here.pawl
    const terms = { maxUsd: 1, per: 'day' } as const
    await expect(budgets.set(terms)).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(budgets.set({ ...terms, tag: 'a', agent: 'b' })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(budgets.set({ ...terms, tag: 'a', maxUsd: 0 })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(budgets.set({ ...terms, tag: 'a', timeZone: 'Mars/Olympus' })).rejects.toMatchObject({ code: 'invalid_option' })
    await expect(budgets.set({ ...terms, tag: 'a', per: 'week' as never })).rejects.toMatchObject({ code: 'invalid_option' })
  })
})

describe('in the terminal', () => {
  it('a shared budget is set, listed and removed', { timeout: 60_000 }, async () => {
    const { temporalAddress, namespace, databaseUrl } = here.stack
    const env = { TEMPORAL_ADDRESS: temporalAddress, TEMPORAL_NAMESPACE: namespace, DATABASE_URL: databaseUrl }
    const pawl = async (...args: string[]) => {
      const { code, stdout, stderr } = await runPawl(args, { cwd: tmpdir(), env })
      return { code, out: `${stdout}${stderr}` }
    }
    const tag = `tenant:${randomUUID()}`
    expect(await pawl('budgets', 'set', '--max-usd', '5')).toMatchObject({ code: 1, out: expect.stringContaining('--tag or --agent') })
    expect(await pawl('budgets', 'set', '--tag', tag, '--max-usd', '5', '--per', 'month')).toMatchObject({ code: 0 })
    expect(await pawl('budgets')).toMatchObject({ code: 0, out: expect.stringContaining(`month tag ${tag}`) })
    expect(await pawl('budgets', 'remove', `month tag ${tag}`)).toMatchObject({ code: 0, out: expect.stringContaining('is removed') })
    expect((await pawl('budgets', 'list')).out).not.toContain(tag)
  })
})

describe('over HTTP', () => {
  const accesses: Record<string, Access> = {
    root: { identity: 'root', scopes: ['read', 'operate'] },
    acme: { identity: 'ann', scopes: ['read', 'operate'], tenant: 'acme' },
    reader: { identity: 'ron', scopes: ['read'] },
  }
  const nameIn = (request: Request): string => (request.headers.get('authorization') ?? '').replace('Bearer ', '')

  it('operators set, list and remove shared budgets; tenants do not see them', async () => {
    const handler = createHandler({ pawl: here.pawl, authorize: (request) => accesses[nameIn(request)] ?? null, logger: SILENT })
    const [root, acme, reader] = [webClient(handler, 'root'), webClient(handler, 'acme'), webClient(handler, 'reader')]
    const tag = `tenant:${randomUUID()}`
    const set200 = await root.post<{ id: string }>('/v1/budgets', { tag, maxUsd: 5, per: 'day' })
    expect(set200).toMatchObject({ status: 200, body: { tag, maxUsd: 5, setBy: 'root' } })
    const { items } = (await root.get<{ items: { id: string }[] }>('/v1/budgets')).body
    expect(items.map(({ id }) => id)).toContain(set200.body.id)
    for (const who of [acme, reader]) {
      expect(await who.get('/v1/budgets')).toMatchObject({ status: 403, body: { code: 'forbidden' } })
      expect(await who.post('/v1/budgets', { tag, maxUsd: 500, per: 'day' })).toMatchObject({ status: 403 })
    }
    expect(await root.post('/v1/budgets', { tag, maxUsd: 5, per: 'year' })).toMatchObject({ status: 400 })
    expect(await root.post(`/v1/budgets/${encodeURIComponent(set200.body.id)}/remove`)).toMatchObject({ status: 204 })
  })
})
