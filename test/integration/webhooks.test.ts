// Webhooks: what a target is notified of, in which order, and what becomes of notifications that it does not accept.
import { setTimeout as sleep } from 'node:timers/promises'
import { ModelError } from 'pawl'
import type { NewWebhook, WebhookOptions } from 'pawl/client'
import { type Access, createHandler } from 'pawl/service'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, inject, it } from 'vitest'
import { openStore } from '../../src/store/index.ts'
import { type ApprovalStage, approvalStage, digestOf, once } from '../support/approvals.ts'
import { type Deployment, deploy, SILENT } from '../support/deployment.ts'
import { ownSchema, type OwnSchema } from '../support/rows.ts'
import { inOrder, type Stage, stage, use } from '../support/scenes.ts'
import { gate, until } from '../support/until.ts'
import { webClient, type WebClient } from '../support/web.ts'
import { type WebhookTarget, webhookTarget } from '../support/webhook-target.ts'

const TIMEOUT = { timeout: 30_000 }

let schema: OwnSchema
let here: Deployment
let player: Stage
let desk: ApprovalStage
let target: WebhookTarget
let database: pg.Client
const before = process.env.PAWL_WEBHOOKS

beforeAll(async () => {
  process.env.PAWL_WEBHOOKS = 'private'
  schema = await ownSchema(inject('stack').databaseUrl, 'webhooks')
  database = new pg.Client(inject('stack').databaseUrl)
  await database.connect()
  here = await deploy({ schema: schema.name })
  player = stage({ retry: { maxRetries: 0 }, limits: { maxUsd: 1 } }, { price: { input: 1, output: 1 } } as never)
  desk = approvalStage()
  await here.startWorker({ agents: [player.agent, desk.agent] })
})
afterAll(async () => {
  if (before === undefined) delete process.env.PAWL_WEBHOOKS
  else process.env.PAWL_WEBHOOKS = before
  await here?.stop()
  await database?.end()
  await schema?.close()
})

beforeEach(async () => {
  target = await webhookTarget()
})
afterEach(async () => {
  for (const { id } of await here.pawl.webhooks.list()) await here.pawl.webhooks.remove(id)
  await target.stop()
})

/** A webhook whose target is listening. */
async function webhook(options: Omit<WebhookOptions, 'url'> = {}): Promise<NewWebhook> {
  const made = await here.pawl.webhooks.create({ url: target.url, ...options })
  target.secret = made.secret
  return made
}

const stateOf = async ({ id }: NewWebhook) => {
  const found = (await here.pawl.webhooks.list()).find((one) => one.id === id)
  return found ?? expect.fail(`no webhook ${id}`)
}

describe('a target', () => {
  it('a target is notified of a run’s end, with signed facts and without what anyone has written', async () => {
    const made = await webhook()
    const { session, id } = player.play(here.pawl, { model: () => 'a secret answer' })
    await (await session.send('a secret question')).result(TIMEOUT)
    const [hook] = await target.accepted(id, 1)
    expect(hook).toMatchObject({
      type: 'run.completed',
      data: { sessionId: id, agent: 'player', run: 1, turns: 1, stopReason: 'end_turn' },
    })
    expect(JSON.stringify(target.received)).not.toContain('secret')
    await until('it is recorded', async () => (await stateOf(made)).delivered === 1)
    expect(await stateOf(made)).toMatchObject({ waiting: 0, givenUp: 0, lastError: null, lastDeliveredAt: expect.any(Date) })
    expect(await stateOf(made)).not.toHaveProperty('secret')
  })

  it('a target is notified of what waits for a person, each in its kind, and of nothing that it did not ask for', async () => {
    await webhook({ types: ['call.waiting'] })
    const asks = desk.play(here.pawl, { model: once(['pay', 'a']) })
    const run = await asks.session.send('go')
    const [asked] = await target.accepted(asks.id, 1)
    expect(asked?.data).toMatchObject({ kind: 'approval', run: 1, turn: 1, callId: 't_1_1_0', tool: 'pay' })
    expect(asked?.data.digest).toBe(await digestOf(run, 't_1_1_0'))
    expect(new Date(asked?.data.expiresAt).getTime()).toBeGreaterThan(Date.now())
    await asks.session.deny('t_1_1_0', { digest: asked?.data.digest, reason: 'no' })
    await (await asks.session.send('done?')).result(TIMEOUT)
    expect(target.of(asks.id).map(({ type }) => type)).toEqual(['call.waiting'])
  })

  it('a target is notified of an error with its code and what is suggested, and of an interrupted run', async () => {
    await webhook({ types: ['session.error', 'run.interrupted'] })
    const refuse = (): never => {
      throw new ModelError('bad_request', 'a secret reason', { retryable: false })
    }
    const failing = player.play(here.pawl, { model: refuse })
    await (await failing.session.send('go')).settled(TIMEOUT)
    const [error] = await target.accepted(failing.id, 1)
    expect(error).toMatchObject({ type: 'session.error', data: { code: 'bad_request', run: 1, strategy: expect.any(String) } })
    expect(JSON.stringify(error)).not.toContain('secret')

    const held = gate()
    const looking = player.play(here.pawl, { model: inOrder([use('look', 'a')]), look: () => held.pass() })
    const run = await looking.session.send('go')
    await held.reached
    await looking.session.interrupt({ by: 'ann' })
    held.open()
    await run.settled(TIMEOUT)
    const [interrupted] = await target.accepted(looking.id, 1)
    expect(interrupted).toMatchObject({ type: 'run.interrupted', data: { run: 1, by: 'ann' } })
  })

  it('a target that asks for content gets the event as it is stored', async () => {
    await webhook({ content: true, types: ['session.error'] })
    const refuse = (): never => {
      throw new ModelError('bad_request', 'the reason', { retryable: false })
    }
    const { session, id } = player.play(here.pawl, { model: refuse })
    await (await session.send('go')).settled(TIMEOUT)
    const [hook] = await target.accepted(id, 1)
    expect(hook?.data.event).toMatchObject({ type: 'error_entered', seq: hook?.data.seq, reason: expect.stringContaining('the reason') })
  })

  it('a target is notified only of the sessions and agents that it was created for, from then on', async () => {
    const early = player.play(here.pawl, {}, { id: `acme:early-${Date.now()}` })
    await (await early.session.send('one')).result(TIMEOUT)
    await webhook({ idPrefix: 'acme:', agent: 'player' })
    const other = player.play(here.pawl, {})
    await (await other.session.send('one')).result(TIMEOUT)
    const own = player.play(here.pawl, {}, { id: `acme:own-${Date.now()}` })
    await (await own.session.send('one')).result(TIMEOUT)
    await target.accepted(own.id, 1)
    expect(target.received).toHaveLength(1)
  })
})

describe('a notification that is not accepted', () => {
  it('a notification that is not accepted is sent again, and what follows in its session waits, but no other session does', async () => {
    const made = await webhook({ types: ['run.completed'] })
    const { session, id } = player.play(here.pawl, {})
    let failures = 1
    target.answer = ({ data }) => (data.sessionId === id && failures-- > 0 ? 500 : 204)
    await (await session.send('one')).result(TIMEOUT)
    await until('it has failed', async () => (await stateOf(made)).lastError === 'HTTP 500')
    await (await session.send('two')).result(TIMEOUT)
    const other = player.play(here.pawl, {})
    await (await other.session.send('one')).result(TIMEOUT)
    await target.accepted(other.id, 1)
    expect(target.of(id).map(({ status }) => status)).toEqual([500])
    // The other session's notification has reached the target, and may not have been noted yet.
    const waiting = await here.pawl.webhooks.deliveries({ webhook: made.id })
    expect(waiting.filter(({ sessionId }) => sessionId === id)).toMatchObject([
      { sessionId: id, attempts: 1, lastError: 'HTTP 500', givenUpAt: null },
      { sessionId: id, attempts: 0, lastError: null },
    ])

    const accepted = await target.accepted(id, 2)
    expect(accepted.map(({ data }) => data.run)).toEqual([1, 2])
    const [first, again] = target.of(id)
    expect(again?.id).toBe(first?.id)
  })

  it('a notification that is not accepted for three days is given up, so that later ones go on, until a person sends it again', async () => {
    const made = await webhook({ types: ['run.completed'] })
    const { session, id } = player.play(here.pawl, {})
    target.answer = ({ data }) => (data.sessionId === id && data.run === 1 ? 500 : 204)
    await (await session.send('one')).result(TIMEOUT)
    await until('it has failed', async () => (await stateOf(made)).lastError === 'HTTP 500')
    await database.query(`update ${schema.name}.webhook_deliveries set queued_at = queued_at - interval '4 days', due_at = now()`)
    await until('it is given up', async () => (await stateOf(made)).givenUp === 1)
    await (await session.send('two')).result(TIMEOUT)
    await target.accepted(id, 1)

    target.answer = () => 204
    expect(await here.pawl.webhooks.redeliver(made.id, { session: id })).toBe(1)
    const accepted = await target.accepted(id, 2)
    expect(accepted.map(({ data }) => data.run)).toEqual([2, 1])
    expect(await here.pawl.webhooks.redeliver(made.id)).toBe(0)
  })

  it('a target that is gone pauses its webhook; what happens meanwhile is sent when it is resumed', async () => {
    const made = await webhook({ types: ['run.completed'] })
    target.answer = () => 410
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await until('it is paused', async () => (await stateOf(made)).pausedAt !== null)
    expect(await stateOf(made)).toMatchObject({ pausedBy: 'its target (410 Gone)', lastError: 'HTTP 410' })
    target.answer = () => 204
    await (await session.send('two')).result(TIMEOUT)
    await here.pawl.webhooks.resume(made.id)
    expect((await target.accepted(id, 2)).map(({ data }) => data.run)).toEqual([1, 2])
  })

  it('a target that is gone gets no more than the requests that are in progress', async () => {
    const made = await webhook({ types: ['run.completed'] })
    await here.pawl.webhooks.pause(made.id)
    const played = Array.from({ length: 30 }, () => player.play(here.pawl, {}))
    await Promise.all(played.map(async ({ session }) => (await session.send('one')).result(TIMEOUT)))
    target.answer = () => 410
    await here.pawl.webhooks.resume(made.id)
    await until('it is paused', async () => (await stateOf(made)).pausedBy === 'its target (410 Gone)')
    await sleep(4_000)
    expect(target.received.length).toBeLessThanOrEqual(10)
    expect(await stateOf(made)).toMatchObject({ waiting: 30, givenUp: 0 })
  })

  it('a target that is not public gets nothing from a worker that sends only to public ones', async () => {
    process.env.PAWL_WEBHOOKS = 'public'
    const own = await ownSchema(inject('stack').databaseUrl, 'webhooks_public')
    const strict = await deploy({ schema: own.name })
    try {
      await strict.startWorker({ agents: [player.agent] })
      const made = await strict.pawl.webhooks.create({ url: target.url })
      await (await player.play(strict.pawl, {}).session.send('one')).result(TIMEOUT)
      const error = await until('it has failed', async () => (await strict.pawl.webhooks.list())[0]?.lastError ?? false)
      expect(error).toBe('127.0.0.1 is a private address')
      expect(made.url).toBe(target.url)
      expect(target.received).toEqual([])
    } finally {
      process.env.PAWL_WEBHOOKS = 'private'
      await strict.stop()
      await own.close()
    }
  })
})

describe('webhooks', () => {
  it('webhooks of a deployment continue on another worker once the one that sends is stopped', async () => {
    const own = await ownSchema(inject('stack').databaseUrl, 'webhooks_two')
    const two = await deploy({ schema: own.name })
    try {
      const first = await two.startWorker({ agents: [player.agent] })
      await two.startWorker({ agents: [player.agent] })
      target.secret = (await two.pawl.webhooks.create({ url: target.url, types: ['run.completed'] })).secret
      const { session, id } = player.play(two.pawl, {})
      await (await session.send('one')).result(TIMEOUT)
      await target.accepted(id, 1)
      await first.stop()
      await (await session.send('two')).result(TIMEOUT)
      await target.accepted(id, 2)
      // Two workers do not send the same twice.
      expect(target.of(id)).toHaveLength(2)
    } finally {
      await two.stop()
      await own.close()
    }
  })

  it('an erased session leaves nothing to send, and what is queued later is refused', async () => {
    const made = await webhook({ types: ['run.completed'] })
    target.answer = () => 500
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await until('it has failed', async () => (await stateOf(made)).lastError !== null)
    await here.pawl.erase(id, { by: 'dpo', force: true })
    expect(await here.pawl.webhooks.deliveries({ webhook: made.id })).toEqual([])
    expect((await stateOf(made)).waiting).toBe(0)
  })

  it('a notification that is queued while its session is being erased leaves nothing', async () => {
    // Nothing else sends to it, because it is paused.
    const made = await webhook({ types: ['run.completed'] })
    await here.pawl.webhooks.pause(made.id)
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    const store = openStore({ postgres: here.stack.databaseUrl, schema: schema.name })
    try {
      await database.query('begin')
      await database.query(`select from ${schema.name}.sessions where session_id = $1 for update`, [id])
      await database.query(`delete from ${schema.name}.webhook_deliveries where session_id = $1`, [id])
      const facts = { webhookId: made.id, sessionId: id, seq: 7, agent: 'player', type: 'run.completed', happenedAt: new Date(), facts: {} }
      const queued = store.webhooks.queue([facts as never])
      await sleep(300)
      await database.query(`update ${schema.name}.sessions set erased_at = now() where session_id = $1`, [id])
      await database.query('commit')
      await queued
      expect(await here.pawl.webhooks.deliveries({ webhook: made.id })).toEqual([])
    } finally {
      await database.query('rollback')
      await store.close()
    }
  })

  it('a webhook can be removed while what became of a notification is recorded', async () => {
    const made = await webhook({ types: ['run.completed'] })
    target.answer = () => 500
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await until('it is queued', async () => (await stateOf(made)).waiting === 1)
    // The worker sends no more for it.
    await here.pawl.webhooks.pause(made.id)
    const [{ seq } = { seq: 0 }] = await here.pawl.webhooks.deliveries({ webhook: made.id })
    const store = openStore({ postgres: here.stack.databaseUrl, schema: schema.name })
    const observer = new pg.Client(here.stack.databaseUrl)
    await observer.connect()
    const key = { webhookId: made.id, sessionId: id, seq }
    try {
      for (const record of [() => store.webhooks.failed(key, { error: 'no', againInMs: 60_000 }), () => store.webhooks.delivered(key)]) {
        // What a removal locks, in its order. It would be the one that Postgres rolls back.
        await database.query("begin; set local deadlock_timeout = '10ms'")
        await database.query(`select from ${schema.name}.webhooks where id = $1 for update`, [made.id])
        const recorded = record()
        await until('it waits', async () => {
          const { rows } = await observer.query(
            "select from pg_stat_activity where wait_event_type = 'Lock' and application_name = 'pawl' and query like $1",
            [`%${schema.name}%`],
          )
          return rows.length > 0
        })
        await database.query(`select from ${schema.name}.webhook_deliveries where webhook_id = $1 for update`, [made.id])
        await database.query('commit')
        await recorded
      }
    } finally {
      await database.query('rollback')
      await observer.end()
      await store.close()
    }
    expect(await stateOf(made)).toMatchObject({ waiting: 0, delivered: 1 })
  })

  it('a webhook is not notified of what happened before its creation, even if that is stored later, as by a rebuild', async () => {
    const made = await webhook({ types: ['run.completed'] })
    const { session, id } = player.play(here.pawl, {})
    await (await session.send('one')).result(TIMEOUT)
    await target.accepted(id, 1)
    const store = openStore({ postgres: here.stack.databaseUrl, schema: schema.name })
    try {
      const facts = { webhookId: made.id, sessionId: id, agent: 'player', type: 'run.completed', facts: {} }
      const of = (seq: number, minutesAgo: number) => ({ ...facts, seq, happenedAt: new Date(Date.now() - minutesAgo * 60_000) })
      await here.pawl.webhooks.pause(made.id)
      await store.webhooks.queue([of(101, 60), of(102, 0)] as never)
      expect((await here.pawl.webhooks.deliveries({ webhook: made.id })).map(({ seq }) => seq)).toEqual([102])
    } finally {
      await store.close()
    }
  })

  it('a webhook is refused with a target, a secret or a type that cannot be', async () => {
    const create = (options: object) => here.pawl.webhooks.create({ url: target.url, ...options } as WebhookOptions)
    const refused = (message: string) => expect.objectContaining({ code: 'invalid_option', message: expect.stringContaining(message) })
    await expect(create({ url: 'ftp://example.com' })).rejects.toEqual(refused('`url` must be an address that begins with http or https'))
    await expect(create({ url: 'https://ann:secret@example.com' })).rejects.toEqual(refused('without credentials'))
    await expect(create({ url: 'https://example.com/\0' })).rejects.toEqual(refused('an address that begins with http or https'))
    await expect(create({ secret: 'whsec_c2hvcnQ=' })).rejects.toEqual(refused('24 to 64 bytes'))
    await expect(create({ types: ['run.started'] })).rejects.toEqual(refused('a list of one or more of call.waiting'))
    await expect(create({ types: [] })).rejects.toEqual(refused('a list of one or more of call.waiting'))
    await expect(here.pawl.webhooks.pause('wh_none')).rejects.toEqual(refused('No webhook has the id "wh_none"'))
    await expect(here.pawl.webhooks.redeliver('wh_none')).rejects.toEqual(refused('No webhook has the id "wh_none"'))
    expect(await here.pawl.webhooks.list()).toEqual([])
  })

  it('a webhook that is created twice under one id exists once, with one secret', async () => {
    const made = await webhook({ id: 'wh_mine' })
    expect(await here.pawl.webhooks.create({ url: target.url, id: 'wh_mine' })).toMatchObject({ id: 'wh_mine', secret: made.secret })
    expect(await here.pawl.webhooks.list()).toHaveLength(1)
  })
})

describe('webhooks over HTTP', () => {
  const ALL = ['read', 'send', 'approve', 'operate'] as const
  const ACCESSES: Record<string, Access> = {
    root: { identity: 'root', scopes: ALL },
    acme: { identity: 'ann', scopes: ALL, tenant: 'acme' },
    globex: { identity: 'gil', scopes: ALL, tenant: 'globex' },
    sender: { identity: 'sue', scopes: ['read', 'send', 'approve'] },
  }
  const as = (who: string): WebClient => {
    const authorize = (): Access => ACCESSES[who] ?? expect.fail(who)
    return webClient(createHandler({ pawl: here.pawl, authorize, logger: SILENT }), who)
  }

  it('a tenant’s operator manages the tenant’s webhooks, and learns nothing of any other', async () => {
    const { status, body: made } = await as('acme').post<NewWebhook>('/v1/webhooks', { url: target.url, types: ['run.completed'] })
    expect({ status, prefix: made.idPrefix, by: made.createdBy }).toEqual({ status: 201, prefix: 'acme:', by: 'ann' })
    target.secret = made.secret
    const { session, id } = player.play(here.pawl, {}, { id: `acme:${Date.now()}` })
    await (await session.send('one')).result(TIMEOUT)
    await target.accepted(id, 1)

    expect((await as('acme').get('/v1/webhooks')).body).toMatchObject({ items: [{ id: made.id }] })
    expect(JSON.stringify((await as('root').get('/v1/webhooks')).body)).not.toContain(made.secret)
    expect((await as('globex').get('/v1/webhooks')).body).toEqual({ items: [] })
    for (const action of ['pause', 'resume', 'redeliver']) {
      expect(await as('globex').post(`/v1/webhooks/${made.id}/${action}`, {})).toMatchObject({
        status: 404,
        body: { code: 'webhook_not_found' },
      })
      expect((await as('acme').post(`/v1/webhooks/${made.id}/${action}`, {})).status).toBe(200)
    }
    // Nor of the deployment's own, which is notified of the tenant's sessions, too.
    target.answer = () => 500
    const wide = await here.pawl.webhooks.create({ url: 'http://127.0.0.1:1/', types: ['run.completed'] })
    await (await session.send('two')).result(TIMEOUT)
    await until('both wait', async () => (await here.pawl.webhooks.deliveries()).length === 2)
    type Items = { items: { webhook: string }[] }
    expect((await as('root').get<Items>('/v1/webhook-deliveries')).body.items).toHaveLength(2)
    expect((await as('acme').get<Items>('/v1/webhook-deliveries')).body.items).toMatchObject([{ webhook: made.id }])
    expect((await as('acme').get<Items>(`/v1/webhook-deliveries?webhook=${wide.id}`)).body.items).toEqual([])
    await here.pawl.webhooks.remove(wide.id)

    await as('globex').post(`/v1/webhooks/${made.id}/remove`)
    expect((await as('root').get<{ items: unknown[] }>('/v1/webhooks')).body.items).toHaveLength(1)
    expect((await as('acme').post(`/v1/webhooks/${made.id}/remove`)).status).toBe(204)
    expect((await as('acme').post(`/v1/webhooks/${made.id}/remove`)).status).toBe(204)
    expect((await as('root').get('/v1/webhooks')).body).toEqual({ items: [] })
  })

  it('a tenant cannot be notified of other tenants’ sessions, and a sender can create no webhook', async () => {
    const wide = await as('acme').post('/v1/webhooks', { url: target.url, idPrefix: 'globex:' })
    expect(wide).toMatchObject({ status: 400, body: { code: 'invalid_input', detail: expect.stringContaining('"acme:"') } })
    expect(await as('sender').post('/v1/webhooks', { url: target.url })).toMatchObject({ status: 403 })
    expect(await as('sender').get('/v1/webhooks')).toMatchObject({ status: 403 })
    expect(await as('root').post('/v1/webhooks', { url: 'ftp://x' })).toMatchObject({ status: 400, body: { code: 'invalid_option' } })
  })

  it('a tenant has at most a hundred webhooks, and a repeated request still gets its own', async () => {
    const key = { 'idempotency-key': 'the first' }
    const { body: first } = await as('acme').post('/v1/webhooks', { url: target.url }, key)
    const columns = 'id, url, secret, types, id_prefix, with_content, paused_at'
    await database.query(
      `insert into ${schema.name}.webhooks (${columns})
       select 'wh_' || n, 'http://127.0.0.1:1/', 'whsec_x', '{session.error}', 'acme:', false, now() from generate_series(1, 99) n`,
    )
    const refused = await as('acme').post('/v1/webhooks', { url: target.url })
    expect(refused).toMatchObject({ status: 409, body: { code: 'too_many_webhooks' } })
    expect(await as('acme').post('/v1/webhooks', { url: target.url }, key)).toMatchObject({ status: 201, body: { id: first.id } })
    expect((await as('globex').post('/v1/webhooks', { url: target.url })).status).toBe(201)
  })

  it('a repeated request to create a webhook gets the one that exists', async () => {
    const key = { 'idempotency-key': 'deploy-1' }
    const [first, again] = [
      await as('root').post('/v1/webhooks', { url: target.url }, key),
      await as('root').post('/v1/webhooks', { url: target.url }, key),
    ]
    expect(again).toMatchObject({ status: 201, body: { id: first.body.id, secret: first.body.secret } })
    expect((await as('acme').post('/v1/webhooks', { url: target.url }, key)).body.id).not.toBe(first.body.id)
    // Nobody can try keys until one leads to another's webhook.
    expect(String(first.body.id)).toMatch(/^wh_[0-9a-f]{40}$/)
  })
})
