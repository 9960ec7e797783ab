// Limits of tools over all workers: how many calls run at a time, how many begin, in which order, and what happens when a worker, the
// store or a person interferes.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool, type Tool } from 'pawl'
import { calls, scripted } from 'pawl/testing'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { deploymentStatus } from '../../src/client/index.ts'
import { openStore } from '../../src/store/index.ts'
import type { Store } from '../../src/store/store.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { type Gate, gate, until } from '../support/until.ts'

const input = z.object({ tenant: z.string() })

/** A tool whose calls stay in the body until their door opens; counts who is inside. */
function holding(options: Pick<Tool, 'limits'> & { effect?: 'read' | 'external' }) {
  const inside = new Map<string, number>()
  const world = { most: 0, began: [] as { tenant: string; at: number }[], doors: new Map<string, Gate>() }
  const doorOf = (session: string): Gate => {
    const door = world.doors.get(session) ?? gate()
    world.doors.set(session, door)
    return door
  }
  const tool: Tool = {
    ...defineTool({
      name: `hold_${randomUUID().slice(0, 8)}`,
      description: 'Hold.',
      input,
      effect: options.effect ?? 'read',
      retry: { baseDelay: 10 },
      execute: async ({ tenant }, ctx) => {
        inside.set(tenant, (inside.get(tenant) ?? 0) + 1)
        world.most = Math.max(world.most, ...inside.values())
        world.began.push({ tenant, at: performance.now() })
        try {
          await doorOf(ctx.sessionId).pass(ctx.signal)
        } finally {
          inside.set(tenant, (inside.get(tenant) ?? 0) - 1)
        }
        return 'held'
      },
    }),
    ...options,
  }
  const model = scripted(({ messages }) => (messages.length > 1 ? 'done' : calls(tool.name, { tenant: String(messages[0]?.content) })))
  return { tool, world, doorOf, agent: defineAgent({ name: tool.name, instructions: '', model, tools: [tool] }) }
}

const alone = holding({ limits: [{ of: 'concurrency', max: 2, key: (given) => (given as { tenant: string }).tenant }] })
const paced = holding({ limits: [{ of: 'rate', max: 3, perMs: 2_000 }] })
const keyless = holding({ limits: [{ of: 'rate', max: 1, perMs: 1_000, key: () => '' }] })
const waiting = holding({ limits: [{ of: 'concurrency', max: 1 }] })

let here: Deployment
let sql: pg.Client

beforeAll(async () => {
  here = await deploy()
  const agents = [alone.agent, paced.agent, keyless.agent, waiting.agent]
  // Two workers, which share nothing but Temporal and Postgres.
  await here.startWorker({ agents })
  await here.startWorker({ agents })
  sql = new pg.Client(here.stack.databaseUrl)
  await sql.connect()
})
afterAll(async () => {
  await sql?.end()
  await here?.stop()
})

const sessionOf = (agent: string) => here.pawl.session(`limit-${randomUUID()}`, { agent })
const rowsOf = async (tool: string) =>
  (await sql.query('select session_id, admitted_at from pawl.call_limits where tool = $1 and until > now() order by asked_at', [tool])).rows

describe('the calls of a tool', () => {
  it('a tool with a concurrency limit runs at most that many calls at a time across all workers, for each key', {
    timeout: 60_000,
  }, async () => {
    const { agent, world, doorOf } = alone
    const sessions = Array.from({ length: 8 }, () => sessionOf(agent.name))
    const runs = await Promise.all(sessions.map((session, n) => session.send(n < 6 ? 'acme' : 'other')))
    await until('two of each tenant are inside', () => world.began.length === 4)
    // Every other call has asked by then, and waits.
    await until('the others wait', async () => (await rowsOf(agent.name)).filter(({ admitted_at: at }) => at === null).length === 4)
    expect(world.began.map(({ tenant }) => tenant).toSorted()).toEqual(['acme', 'acme', 'other', 'other'])
    for (const { id } of sessions) doorOf(id).open()
    for (const run of runs) expect(await run.result({ timeout: 50_000 })).toMatchObject({ text: 'done' })
    expect(world.most).toBe(2)
    expect(world.began).toHaveLength(8)
    await until('no call counts any more', async () => (await rowsOf(agent.name)).length === 0)
    for (const session of sessions) expect(ofType(await eventsOf(session), 'tool_attempt_failed')).toEqual([])
  })

  it('a tool with a rate limit begins at most that many calls per period across all workers', { timeout: 60_000 }, async () => {
    const { agent, world, doorOf } = paced
    const sessions = Array.from({ length: 8 }, () => sessionOf(agent.name))
    for (const { id } of sessions) doorOf(id).open()
    const runs = await Promise.all(sessions.map((session) => session.send('acme')))
    for (const run of runs) expect(await run.result({ timeout: 50_000 })).toMatchObject({ text: 'done' })
    const began = world.began.map(({ at }) => at).toSorted((a, b) => a - b)
    expect(began).toHaveLength(8)
    // Admission comes before the body, and a busy machine may delay one of the two: of any four, the last was admitted 2 s after the first.
    const { rows } = await sql.query(
      `select extract(epoch from admitted_at) * 1000 as at from pawl.call_limits where tool = $1 order by admitted_at`,
      [agent.name],
    )
    const admitted = rows.map(({ at }) => Number(at))
    for (let n = 3; n < admitted.length; n++) expect((admitted[n] ?? 0) - (admitted[n - 3] ?? 0)).toBeGreaterThanOrEqual(2_000)
  })
})

it('a call whose limit gets no usable key is an error result, and its body does not run', async () => {
  const { agent, world } = keyless
  const session = sessionOf(agent.name)
  await (await session.send('acme')).result({ timeout: 20_000 })
  const message = expect.stringMatching(/^The call cannot be made: .* must return a string of 1 to 200 characters; fix the function\.$/)
  expect(ofType(await eventsOf(session), 'tool_failed')).toMatchObject([{ code: 'invalid_limit_key', message }])
  expect(world.began).toEqual([])
})

describe('a call that waits for a limit', () => {
  it('a call that waits for a limit is reported as waiting, can be interrupted, and has had no attempt', { timeout: 60_000 }, async () => {
    const { agent, world, doorOf } = waiting
    const [first, second, third] = [sessionOf(agent.name), sessionOf(agent.name), sessionOf(agent.name)]
    const holder = await first.send('acme')
    await doorOf(first.id).reached
    const interrupted = await second.send('acme')
    await until('the second waits', async () => (await second.state()).callWaits?.some((wait) => wait.for === 'limit'))
    expect((await second.state()).callWaits).toMatchObject([
      { callId: 't_1_1_0', reason: `the tool "${agent.name}" runs at most 1 times at once` },
    ])
    expect((await second.status()).waitsFor).toMatchObject([{ for: 'limit', tool: agent.name }])
    const { temporalAddress: address, namespace, databaseUrl: postgres } = here.stack
    const place = { temporal: { address, namespace }, postgres, taskQueue: here.taskQueue }
    await until('the issued call is stored', async () => (await second.toolCalls()).some(({ status }) => status === 'issued'))
    // Long enough that a call that no worker begins would need somebody.
    await sql.query(`update pawl.sessions set flushed_at = now() - interval '20 seconds' where session_id = $1`, [second.id])
    const { overview, heldUp } = await deploymentStatus(place, { agent: agent.name })
    expect(overview?.items.find(({ sessionId }) => sessionId === second.id)).toMatchObject({ needs: 'automatic' })
    expect(heldUp[second.id]).toContain('runs at most 1 times at once')
    const last = await third.send('acme')
    await until('the third waits', async () => (await rowsOf(agent.name)).length === 3)
    await second.interrupt()
    expect(await interrupted.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    expect(world.began).toHaveLength(1)
    doorOf(third.id).open()
    doorOf(first.id).open()
    expect(await holder.result({ timeout: 20_000 })).toMatchObject({ text: 'done' })
    expect(await last.result({ timeout: 50_000 })).toMatchObject({ text: 'done' })
    expect(ofType(await eventsOf(second), 'tool_failed')).toMatchObject([{ code: 'interrupted', attempt: 0 }])
    expect(world.most).toBe(1)
  })
})

describe('the store', () => {
  let store: Store
  const limit = { tool: `store-${randomUUID()}`, of: 'concurrency' as const, max: 1, key: '' }
  const callOf = (callId: string) => ({ sessionId: 's', callId, attempt: 1, entry: callId, forMs: 60_000, begins: true })

  beforeAll(() => {
    store = openStore({ postgres: here.stack.databaseUrl })
  })
  afterAll(() => store?.close())

  it('the store admits calls in the order in which they asked, and admits a call that already has its place again', async () => {
    const limits = [limit]
    expect(await store.admitCall({ ...callOf('a'), limits })).toBe(0)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBeGreaterThan(0)
    expect(await store.admitCall({ ...callOf('c'), limits })).toBeGreaterThan(0)
    expect(await store.admitCall({ ...callOf('a'), limits })).toBe(0)
    await store.leaveLimits({ sessionId: 's', callId: 'a', entry: 'a' })
    expect(await store.admitCall({ ...callOf('c'), limits })).toBeGreaterThan(0)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBe(0)
    await store.leaveLimits({ sessionId: 's', callId: 'b', entry: 'b' })
    expect(await store.admitCall({ ...callOf('c'), limits })).toBe(0)
    await store.leaveLimits({ sessionId: 's', callId: 'c', entry: 'c' })
  })

  it('the store keeps the place of a call whose next attempt has begun when the end of the one before it is reported late', async () => {
    const limits = [{ ...limit, tool: `fenced-${randomUUID()}` }]
    const attempt = (n: number) => ({ ...callOf('a'), attempt: n, entry: `entry ${n}` })
    const ended = (n: number) => store.leaveLimits({ sessionId: 's', callId: 'a', entry: `entry ${n}` })
    for (const n of [1, 2]) expect(await store.admitCall({ ...attempt(n), limits })).toBe(0)
    await ended(1)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBeGreaterThan(0)
    // Another worker, which was held up, asks for the first attempt only now.
    expect(await store.admitCall({ ...attempt(1), limits })).toBe(0)
    await ended(1)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBeGreaterThan(0)
    await ended(2)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBe(0)
  })

  it('the store counts a call that waited and then began only once', async () => {
    const rate = { tool: limit.tool, of: 'rate' as const, max: 2, perMs: 60_000, key: '' }
    const one = { ...callOf('a'), limits: [rate] }
    expect(await store.admitCall({ ...one, begins: false })).toBe(0)
    expect(await store.admitCall({ ...one, begins: true })).toBe(0)
    // Another attempt.
    expect(await store.admitCall({ ...one, begins: true })).toBe(0)
    expect(await store.admitCall({ ...one, begins: true })).toBeGreaterThan(0)
  })

  it('the store admits a call whose place has expired while another call removes the expired place', async () => {
    const late = { ...limit, tool: `late-${randomUUID()}` }
    await sql.query(
      `insert into pawl.call_limits (tool, kind, key, session_id, call_id, asked_at, until)
       values ($1, 'concurrency', '', 's', 'late', now() - interval '1 minute', now() - interval '1 second')`,
      [late.tool],
    )
    await sql.query('begin')
    try {
      // As that call's admission does before it waits for the limit.
      await sql.query('delete from pawl.call_limits where tool = $1', [late.tool])
      expect(await store.admitCall({ ...callOf('late'), limits: [late] })).toBe(0)
    } finally {
      await sql.query('commit')
    }
    expect(await rowsOf(late.tool)).toHaveLength(1)
  })

  it('a call goes first at a limit if the calls before it wait for another limit', async () => {
    const tool = `tenants-${randomUUID()}`
    const all = { tool, of: 'concurrency' as const, max: 1, key: '' }
    const ofTenant = (key: string) => [all, { tool, of: 'rate' as const, max: 1, perMs: 60_000, key }]
    expect(await store.admitCall({ ...callOf('a1'), limits: ofTenant('a') })).toBe(0)
    await store.leaveLimits({ sessionId: 's', callId: 'a1', entry: 'a1' })
    // Nothing runs, and two calls of the tenant wait for its rate.
    for (const call of ['a2', 'a3']) expect(await store.admitCall({ ...callOf(call), limits: ofTenant('a') })).toBeGreaterThan(0)
    expect(await store.admitCall({ ...callOf('b1'), limits: ofTenant('b') })).toBe(0)
    // Once their rate admits them, which is as if they had another one, they come before what asked later.
    const asked = (callId: string) => store.admitCall({ ...callOf(callId), limits: ofTenant(callId) })
    for (const call of ['a2', 'c1']) expect(await asked(call)).toBeGreaterThan(0)
    await store.leaveLimits({ sessionId: 's', callId: 'b1', entry: 'b1' })
    expect(await asked('c1')).toBeGreaterThan(0)
    expect(await asked('a2')).toBe(0)
  })

  it.each([1, 10, 100])('calls that wait for a concurrency limit of %i ask about a hundred times a second in total', async (max) => {
    const crowded = { tool: `crowd-${randomUUID()}`, of: 'concurrency' as const, max, key: '' }
    const insert = `insert into pawl.call_limits (tool, kind, key, session_id, call_id, asked_at, admitted_at, begun, until)
      select $1, 'concurrency', '', 's', 'c' || n, now() + n * interval '1 ms', case when n <= $2 then now() end, n <= $2,
        now() + interval '1 minute' from generate_series(1, $3::int) n`
    const waiting = 300
    await sql.query(insert, [crowded.tool, max, max + waiting])
    let perSecond = 0
    // Every tenth of them.
    for (let n = 1; n <= waiting; n += 10) {
      const waitMs = await store.admitCall({ ...callOf(`c${max + n}`), limits: [crowded] })
      expect(waitMs).toBeGreaterThan(0)
      perSecond += 10 * (1_000 / waitMs)
    }
    expect(perSecond).toBeLessThan(120)
  })

  it('the store keeps the admission of a call that has waited for a rate until it begins, and counts its start from then', async () => {
    const rate = { tool: `short-${randomUUID()}`, of: 'rate' as const, max: 1, perMs: 300, key: '' }
    const one = (callId: string, begins: boolean) => store.admitCall({ ...callOf(callId), limits: [rate], begins })
    expect(await one('a', false)).toBe(0)
    expect(await one('b', false)).toBeGreaterThan(0)
    await sleep(2 * rate.perMs)
    // It is late, but before its turn is over.
    expect(await one('b', false)).toBeGreaterThan(100)
    expect(await one('a', true)).toBe(0)
    expect(await one('b', false)).toBeGreaterThan(100)
    await sleep(rate.perMs + 50)
    expect(await one('b', false)).toBe(0)
  })

  async function closedSession() {
    const session = sessionOf(alone.agent.name)
    alone.doorOf(session.id).open()
    await (await session.send('acme')).result({ timeout: 20_000 })
    await session.close()
    await until('it is closed', async () => (await session.state()).status === 'closed')
    return session
  }

  it('the store forgets a call whose session was erased while it asked for admission', async () => {
    const session = await closedSession()
    await here.pawl.erase(session.id, { by: 'ann', force: true })
    const late = { ...callOf('late'), sessionId: session.id, limits: [{ ...limit, tool: alone.agent.name, max: 5 }] }
    expect(await store.admitCall({ ...late, begins: true })).toBe(0)
    expect(await store.admitCall({ ...late, callId: 'later', begins: false })).toBe(0)
    const { rows } = await sql.query('select from pawl.call_limits where session_id = $1', [session.id])
    expect(rows).toEqual([])
  })

  it('the store keeps no place of a call that is admitted while its session is being erased', async () => {
    const session = await closedSession()
    // The erasure waits for this row, in a table that comes after that of the limits.
    const holder = new pg.Client(here.stack.databaseUrl)
    await holder.connect()
    await sql.query("insert into pawl.spend (session_id, seq, agent, at, usd) values ($1, 1000, 'any', now(), 0)", [session.id])
    await holder.query('begin')
    await holder.query('select from pawl.spend where session_id = $1 for update', [session.id])
    const erased = here.pawl.erase(session.id, { by: 'ann', force: true })
    const blockedBy = async (pid: number): Promise<number | undefined> =>
      (await sql.query('select pid from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [pid])).rows[0]?.pid
    const { rows: own } = await holder.query('select pg_backend_pid() as pid')
    const erasing = await until('the erasure waits', () => blockedBy(own[0].pid))
    const admitted = store.admitCall({ ...callOf('beside'), sessionId: session.id, limits: [{ ...limit, tool: alone.agent.name, max: 5 }] })
    await Promise.race([admitted, until('the admission waits, too', () => blockedBy(erasing))])
    await holder.query('commit')
    await Promise.all([erased, admitted, holder.end()])
    const { rows } = await sql.query('select from pawl.call_limits where session_id = $1', [session.id])
    expect(rows).toEqual([])
  })

  it('the store gives a call no place at one limit while another makes it wait', async () => {
    const other = { ...limit, tool: `other-${randomUUID()}`, max: 5 }
    const limits = [other, limit]
    expect(await store.admitCall({ ...callOf('a'), limits: [limit] })).toBe(0)
    expect(await store.admitCall({ ...callOf('b'), limits })).toBeGreaterThan(0)
    expect((await rowsOf(other.tool)).map(({ admitted_at: at }) => at)).toEqual([null])
    await store.leaveLimits({ sessionId: 's', callId: 'a', entry: 'a' })
    expect(await store.admitCall({ ...callOf('b'), limits })).toBe(0)
    expect((await rowsOf(other.tool)).map(({ admitted_at: at }) => at)).toEqual([expect.anything()])
  })
})
