// A provider that refuses calls and asks to wait: who waits, for how long, and what counts as an attempt. Two workers on one database.
import { randomUUID } from 'node:crypto'
import { defineAgent, type Model, ModelError } from 'pawl'
import type { RunHandle } from 'pawl/client'
import pg from 'pg'
import { openGates } from '../../src/client/admin/gates.ts'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { size } from '../support/sizes.ts'
import { until } from '../support/until.ts'
import { runPawl } from './cli/processes.ts'

const SESSIONS = size(20, 100)
/** The wait that the provider asks for. */
const RETRY_AFTER_MS = 4_000

/** A provider with a limit: it refuses everything until `refusesUntil`. */
function provider() {
  const requests: { agent: string; refused: boolean }[] = []
  const world = { refusesUntil: 0, retryAfterMs: RETRY_AFTER_MS }
  const account = `test-${randomUUID()}`
  const modelFor = (agent: string): Model => ({
    name: 'limited',
    provider: 'limited',
    account,
    async generate() {
      const refused = performance.now() < world.refusesUntil
      requests.push({ agent, refused })
      if (refused)
        throw new ModelError('rate_limit_error', 'slow down', {
          retryable: true,
          status: 429,
          retryAfter: agent === 'here' ? world.retryAfterMs : RETRY_AFTER_MS,
        })
      return { content: [{ type: 'text', text: 'fine' }], stopReason: 'end_turn', usage: {} as never }
    },
  })
  return { requests, world, account, modelFor }
}

const limited = provider()
const agentOf = (name: string) =>
  defineAgent({ name, model: limited.modelFor(name), instructions: '', tools: [], retry: { maxRetries: 5, baseDelay: 10 } })

let here: Deployment
let there: Deployment

beforeAll(async () => {
  here = await deploy()
  there = await deploy()
  await here.startWorker({ agents: [agentOf('here')] })
  await there.startWorker({ agents: [agentOf('there')] })
})
afterAll(() => Promise.all([here?.stop(), there?.stop()]))

const send = (where: Deployment, agent: string): Promise<RunHandle> => where.pawl.session(`gate-${randomUUID()}`, { agent }).send('go')

describe('a 429 that asks for a wait', () => {
  it('a 429 that asks for a wait holds the calls of every session on every worker, and costs them no attempt', {
    timeout: 120_000,
  }, async () => {
    const { requests, world, account } = limited
    world.refusesUntil = performance.now() + RETRY_AFTER_MS
    const first = await send(here, 'here')
    const client = new pg.Client(here.stack.databaseUrl)
    await client.connect()
    const rows = await until('the gate is in SQL', async () => {
      const found = await client.query(`select key, by from pawl.gates where key like '%${account}' and shut_until > now()`)
      return found.rows.length > 0 && found.rows
    })
    await client.end()
    expect(rows).toEqual([{ key: `limited ${account}`, by: expect.stringContaining(`:${process.pid}`) }])
    const runs = await Promise.all(Array.from({ length: SESSIONS }, (_, n) => (n % 2 ? send(here, 'here') : send(there, 'there'))))
    for (const run of [first, ...runs]) expect((await run.result({ timeout: 90_000 })).text).toBe('fine')

    const refused = requests.filter((one) => one.refused).length
    // Without a gate, each of them would have been refused.
    expect(refused).toBeLessThan(SESSIONS / 2)
    expect(requests.length).toBe(SESSIONS + 1 + refused)
    let attempts = 0
    for (const run of [first, ...runs]) {
      attempts += ofType(await eventsOf(here.pawl.session(run.sessionId)), 'model_attempt_failed').length
    }
    expect(attempts).toBe(refused)
    expect(new Set(requests.map(({ agent }) => agent))).toEqual(new Set(['here', 'there']))
  })
})

describe('a gate that a person opens', () => {
  it('a gate that a person opens lets the calls of every worker through within a minute, and SQL says who opened it', {
    timeout: 120_000,
  }, async () => {
    const { requests, world, account } = limited
    world.refusesUntil = performance.now() + 60_000
    world.retryAfterMs = 600_000
    const key = `limited ${account}`
    const gates = openGates({ postgres: here.stack.databaseUrl })
    const refused = await send(here, 'here')
    await until('the gate is listed', async () => (await gates.list()).some((gate) => gate.key === key && gate.forMs > 60_000))
    const waiting = await send(there, 'there')
    const before = requests.length
    world.refusesUntil = 0
    world.retryAfterMs = RETRY_AFTER_MS
    expect(await gates.open(key, 'ann')).toBe(true)
    expect((await waiting.result({ timeout: 90_000 })).text).toBe('fine')
    expect((await (await send(here, 'here')).result({ timeout: 20_000 })).text).toBe('fine')
    expect(requests.slice(before).some((one) => one.refused)).toBe(false)
    expect(await gates.open(key, 'ann')).toBe(false)
    expect((await gates.list()).filter((gate) => gate.key === key)).toEqual([])
    const client = new pg.Client(here.stack.databaseUrl)
    await client.connect()
    const { rows } = await client.query('select opened_by from pawl.gates where key = $1', [key])
    await client.end()
    expect(rows).toEqual([{ opened_by: 'ann' }])
    await gates.close()
    await here.pawl.session(refused.sessionId).interrupt()
  })
})

describe('a session that waits at the gate', () => {
  it('a session that waits at the gate reports by when its turn comes; it is interrupted at once, and its model is not called', async () => {
    const { requests, world, account } = limited
    world.refusesUntil = performance.now() + 600_000
    world.retryAfterMs = 600_000
    const refused = await send(here, 'here')
    const before = await until('it is refused', () => (requests.at(-1)?.refused ? requests.length : undefined))
    const waiting = await send(here, 'here')
    const session = here.pawl.session(waiting.sessionId)
    const [wait] = await until('its state says so', async () => (await session.state()).callWaits)
    expect(wait).toEqual({
      for: 'gate',
      account: `limited ${account}`,
      reason: 'its provider has refused calls of the account and asked to wait',
      since: expect.any(Number),
      until: expect.any(Number),
    })
    // The gate is tried once a minute; the call's own turn comes when the provider's wait is over.
    expect((wait?.until ?? 0) - (wait?.since ?? 0)).toBeGreaterThan(500_000)
    expect((await session.status()).waitsFor).toEqual([{ ...wait, attempt: 1 }])
    await until('it is stored', async () => (await session.status()).stored)
    const place = {
      cwd: process.cwd(),
      env: {
        TEMPORAL_ADDRESS: here.stack.temporalAddress,
        TEMPORAL_NAMESPACE: here.stack.namespace,
        DATABASE_URL: here.stack.databaseUrl,
      },
    }
    const cli = (command: string) => runPawl([command, session.id], place)
    const list = () => runPawl(['status', '--task-queue', here.taskQueue, '--limit', '1000'], place)
    const said = new RegExp(
      `waits for +the rate gate of the account "limited ${account}", its provider .+, since 20.+, until 20.+ \\(in \\d+ min`,
    )
    for (const command of ['status', 'show']) expect((await cli(command)).stdout).toMatch(said)
    expect((await cli('status')).stdout).toMatch(/ pawl gates\n/)

    // The refusal is stored during its wait.
    await until('the refusal is an error', async () => (await here.pawl.errors({ session: refused.sessionId })).items.length === 1)
    // Nothing else of them is stored while they wait.
    const client = new pg.Client(here.stack.databaseUrl)
    await client.connect()
    await until('both are stored', async () => {
      const ids = [refused.sessionId, waiting.sessionId]
      const { rows } = await client.query('select session_id from pawl.sessions where session_id = any($1) and status = $2', [
        ids,
        'running',
      ])
      return rows.length === 2
    })
    await client.query(`update pawl.sessions set flushed_at = now() - interval '6 minutes' where session_id = any($1)`, [
      [refused.sessionId, waiting.sessionId],
    ])
    await client.end()
    const { stdout } = await list()
    expect(stdout).toMatch(
      new RegExp(`^Calls to limited ${account} wait for another \\d+ min.*: pawl gates --task-queue ${here.taskQueue}$`, 'm'),
    )
    const atGate = `ends by itself +the rate gate of the account "limited ${account}", until 20\\S+Z \\(in \\d+ min`
    expect(stdout).toMatch(new RegExp(`^${waiting.sessionId} .* ${atGate}`, 'm'))
    expect(stdout).toMatch(new RegExp(`^${refused.sessionId} .* ends by itself +(its next attempt, at|the rate gate)`, 'm'))
    for (const one of [refused, waiting]) {
      await here.pawl.session(one.sessionId).interrupt()
      expect(await one.settled({ timeout: 20_000 })).toMatchObject({ status: 'interrupted' })
    }
    expect(requests.length).toBe(before)
  })
})
