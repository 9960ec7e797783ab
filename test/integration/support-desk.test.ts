// The support desk: the shop over HTTP, the house rules without pawl's runtime, and the desk with it during outages.
import { randomUUID } from 'node:crypto'
import { defineAgent, type Json, type Message, ModelError, type ModelRequest, type Tool, type ToolContext, type ToolUseBlock } from 'pawl'
import { scripted, type Stack, startStack } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { workOnTickets } from '../../examples/support-desk/demo/desk.ts'
import { type RunningShop, startShop } from '../../examples/support-desk/demo/shop-process.ts'
import { houseRules } from '../../examples/support-desk/policy/house-rules.ts'
import { deskModel } from '../../examples/support-desk/policy/model.ts'
import { nextStep } from '../../examples/support-desk/policy/replay.ts'
import { createShopClient, type ShopClient } from '../../examples/support-desk/shop/client.ts'
import { readLedger, readState } from '../../examples/support-desk/shop/database.ts'
import type { Progress } from '../../examples/support-desk/shop/progress.ts'
import { TOOLS } from '../../examples/support-desk/tools/index.ts'
import { countEffects, differences, expectedState } from '../../examples/support-desk/world/expected.ts'
import type { Ticket, World } from '../../examples/support-desk/world/tickets.ts'
import { makeWorld } from '../../examples/support-desk/world/tickets.ts'
import { defined } from '../../src/session/defined.ts'
import { deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { outage } from '../support/outage.ts'
import { size } from '../support/sizes.ts'

/** Ten minutes at full size. */
const AWAY_MS = size(4_000, 600_000)

let stack: Stack
beforeAll(async () => {
  stack = await startStack()
}, 300_000)
afterAll(() => stack?.stop())

/** A shop with a database of its own, which is dropped when the shop stops. */
async function shopOf(world: World): Promise<RunningShop> {
  const databaseUrl = await stack.createDatabase()
  const shop = await startShop({ databaseUrl, records: world.records, seed: world.seed })
  return {
    ...shop,
    async stop() {
      await shop.stop()
      await stack.dropDatabase(databaseUrl)
    },
  }
}

const logger = { debug() {}, info() {}, warn() {}, error() {} }

/** The context that a tool receives, with a key that tells one call from another. */
function contextFor(shop: RunningShop, callId: string, idempotencyKey: string, signal = new AbortController().signal): ToolContext {
  return {
    sessionId: 's',
    agent: 'support-desk',
    run: 1,
    turn: 1,
    context: null,
    metadata: {},
    tags: [],
    callId,
    intent: 1,
    attempt: 1,
    services: { shop: createShopClient(shop.url) },
    slices: {},
    log: logger,
    idempotencyKey,
    signal,
    stillMine: () => Promise.resolve(true),
    progress: () => undefined,
    lastProgress: undefined,
    milestone: () => undefined,
    emit: () => undefined,
    spend: () => undefined,
  }
}

async function execute(shop: RunningShop, use: ToolUseBlock): Promise<string> {
  const tool = TOOLS.find((one) => one.name === use.name) as Tool
  const checked = await tool.input['~standard'].validate(use.input)
  if (checked.issues) throw new Error(JSON.stringify(checked.issues))
  return JSON.stringify(await tool.execute?.(checked.value, contextFor(shop, use.id, randomUUID())))
}

/** Works through the letters, turn by turn, until the model has nothing more to do. */
async function workOn(shop: RunningShop, ticket: Ticket): Promise<{ turns: number; answers: string[] }> {
  const messages: Message[] = []
  const answers: string[] = []
  let turns = 0
  for (const letter of ticket.messages) {
    messages.push({ role: 'user', content: letter })
    for (;;) {
      const request: ModelRequest = { system: '', tools: [], messages, sessionId: ticket.id, run: 1, turn: ++turns }
      const { content } = await deskModel.generate(request, { signal: new AbortController().signal, attempt: 1, onDelta() {} })
      messages.push({ role: 'assistant', content })
      const uses = content.filter((block) => block.type === 'tool_use')
      if (uses.length === 0) {
        answers.push(content.map((block) => (block.type === 'text' ? block.text : '')).join(''))
        break
      }
      const results = await Promise.allSettled(uses.map((use) => execute(shop, use)))
      messages.push({
        role: 'user',
        content: results.map((result, index) => ({
          type: 'tool_result' as const,
          tool_use_id: uses[index]?.id ?? '',
          ...(result.status === 'fulfilled' ? { content: result.value } : { content: String(result.reason), is_error: true }),
        })),
      })
    }
  }
  return { turns, answers }
}

describe('the house rules', () => {
  it.each([1, 2026])(
    'the house rules leave the shop exactly in the state that was computed without it (seed %i)',
    async (seed) => {
      const world = makeWorld(seed, 60)
      const shop = await shopOf(world)
      try {
        const worked = await Promise.all(world.tickets.map(async (ticket) => ({ ticket, ...(await workOn(shop, ticket)) })))
        const state = await readState(shop.pool)
        expect(differences(expectedState(world), state)).toEqual([])
        const expected = world.tickets.flatMap((ticket) => ticket.expected)
        expect(countEffects(expected, state.effects)).toMatchObject({
          applied: expected.length,
          duplicates: 0,
          missing: [],
          unexpected: [],
        })
        for (const { ticket, turns, answers } of worked) {
          expect(`${ticket.scenario} ${turns} turns`).toBe(`${ticket.scenario} ${ticket.turns} turns`)
          expect(answers).toHaveLength(ticket.messages.length)
          expect(answers.join()).not.toMatch(/colleague/)
        }
        const turns = worked.map((one) => one.turns)
        expect([Math.min(...turns), Math.max(...turns)]).toEqual([2, 9])
      } finally {
        await shop.stop()
      }
    },
    60_000,
  )
})

describe('the shop', () => {
  const world = makeWorld(5, 40)
  const delivered =
    world.records.orders.find((order) => order.status === 'delivered' && order.refundedCents === 0) ?? expect.fail('no order')
  let shop: RunningShop
  const send = (method: 'POST' | 'PUT', path: string, body: object, key?: string) =>
    createShopClient(shop.url).request<Record<string, Json>>(method, path, {
      body,
      requestId: 'test',
      signal: AbortSignal.timeout(10_000),
      ...defined({ key }),
    })
  const look = (path: string) =>
    createShopClient(shop.url).request<Record<string, Json>>('GET', path, { requestId: 'test', signal: AbortSignal.timeout(10_000) })
  const count = async (table: string) => (await shop.pool.query<{ n: number }>(`select count(*)::int as n from ${table}`)).rows[0]?.n

  beforeAll(async () => {
    shop = await shopOf(world)
  }, 30_000)
  afterAll(() => shop?.stop())

  it('the shop refunds once per key, even if both requests are in flight, and repeats the first answer', async () => {
    const refund = () => send('POST', `/orders/${delivered.id}/refunds`, { cents: 100, reason: 'test' }, 'key-1')
    const [one, two] = await Promise.all([refund(), refund()])
    expect(two).toEqual(one)
    expect(await refund()).toEqual(one)
    expect(await count('refunds')).toBe(1)
    expect(await readLedger(shop.pool)).toMatchObject({ requests: 3, replayed: 2 })
  })

  it('the shop refuses a key that belongs to another request', async () => {
    const other = send('POST', `/orders/${delivered.id}/refunds`, { cents: 101, reason: 'test' }, 'key-1')
    await expect(other).rejects.toMatchObject({ code: 'key_reused', retryable: false, happened: false })
  })

  it('the shop sends a coupon twice if it is asked twice, regardless of the key', async () => {
    const coupon = { customerId: delivered.customerId, cents: 500, reason: 'test', reference: 'twice' }
    await send('POST', '/coupons', coupon, 'key-2')
    await send('POST', '/coupons', coupon, 'key-2')
    expect((await look('/coupons?reference=twice')).coupons).toHaveLength(2)
    const effects = (await readState(shop.pool)).effects.filter((effect) => effect.kind === 'coupon')
    expect(countEffects([], effects).duplicates).toBe(1)
  })

  it('the shop does not change an address that is already the requested one', async () => {
    const pending = world.records.orders.find((order) => order.status === 'pending') ?? expect.fail('no order')
    const address = { line: 'Quay 1', city: 'Oslo', zip: '0150', country: 'NO' }
    await send('PUT', `/orders/${pending.id}/address`, address)
    await send('PUT', `/orders/${pending.id}/address`, address)
    expect(await count('address_changes')).toBe(1)
  })

  it('the shop answers a look-up only after requests in flight about the same thing have taken effect', async () => {
    const pickup = send('POST', '/pickups', { orderId: delivered.id, window: 'morning', reference: 'soon' })
    await new Promise((resolve) => setTimeout(resolve, 5))
    expect((await look('/pickups?reference=soon')).pickups).toHaveLength(1)
    await pickup
  })

  it('the shop applies an effect whose sender has disconnected, and records that its answer was not received', async () => {
    const told: Progress[] = []
    await shop.follow((progress) => told.push(progress))
    await shop.hold([])
    const gone = new AbortController()
    const body = { template: 'apology' }
    const email = createShopClient(shop.url).request('POST', `/orders/${delivered.id}/emails`, {
      body,
      requestId: 'gone',
      signal: gone.signal,
    })
    await expect.poll(() => told.some((one) => one.at === 'received')).toBe(true)
    gone.abort()
    await expect(email).rejects.toThrow()
    await shop.release()
    await expect.poll(() => told.find((one) => one.at === 'answered')).toMatchObject({ heard: 'unheard', requestId: 'gone' })
    expect((await look(`/orders/${delivered.id}/emails`)).emails).toHaveLength(1)
    await expect.poll(async () => (await readLedger(shop.pool)).appliedUnheard).toBe(1)
  })

  it('the shop holds every request except the exempt ones', async () => {
    await shop.hold(['lucky/'])
    const ask = (requestId: string) =>
      createShopClient(shop.url).request('GET', `/orders/${delivered.id}`, { requestId, signal: AbortSignal.timeout(10_000) })
    const answered: string[] = []
    const asked = ['other/1', 'lucky/1'].map(async (requestId) => {
      await ask(requestId)
      answered.push(requestId)
    })
    await asked[1]
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(answered).toEqual(['lucky/1'])
    await shop.release()
    await Promise.all(asked)
    expect(answered).toEqual(['lucky/1', 'other/1'])
  })

  it('the shop has every request in its ledger, with its key and its outcome', async () => {
    const { rows } = await shop.pool.query(
      'select method, outcome, idempotency_key as key from requests where idempotency_key = $1 order by id',
      ['key-1'],
    )
    expect(rows.map((row: { outcome: string }) => row.outcome).sort()).toEqual(['applied', 'refused', 'replayed', 'replayed'])
  })
})

it('the desk applies every effect once, even with an overloaded provider and a shop that is down', {
  timeout: AWAY_MS * 3 + 120_000,
}, async () => {
  const world = makeWorld(7, size(12, 100))
  const shop = await shopOf(world)
  const desk = await deploy()
  try {
    const [isOverloaded, isAway] = [outage(20, AWAY_MS), outage(30, 1_000)]
    const { request } = createShopClient(shop.url)
    const flaky: ShopClient = {
      request(...asked) {
        if (isAway()) throw new Error('The shop is away.')
        return request(...asked)
      },
    }
    const agent = defineAgent({
      name: 'support-desk',
      instructions: 'Follow the house rules.',
      retry: { maxRetries: 1, baseDelay: 10 },
      // A letter may take 15 minutes. At full size, the pauses of the default policy would grow to 10 minutes.
      recovery: { baseDelay: Math.ceil(AWAY_MS / 120), maxDelay: AWAY_MS / 5, maxAttempts: 20 },
      tools: TOOLS,
      context: z.object({ ticket: z.string(), customerId: z.string() }),
      model: scripted((asked) => {
        if (isOverloaded()) throw new ModelError('overloaded_error', 'overloaded', { retryable: true })
        return nextStep(asked, houseRules)
      }),
    })
    await desk.startWorker({ agents: [agent], services: () => ({ shop: flaky }) })
    const prefix = `desk-${randomUUID()}-`
    const worked = await workOnTickets({
      pawl: desk.pawl,
      tickets: world.tickets,
      sessionIdOf: ({ id }) => prefix + id,
      onStart: () => undefined,
      onEvent: () => undefined,
      onWorked: () => undefined,
    })
    expect(worked.flatMap(({ failure }) => failure ?? [])).toEqual([])
    expect(differences(expectedState(world), await readState(shop.pool))).toEqual([])
    // The outages came in the middle of the work: runs failed, and recovered by themselves.
    const events = await Promise.all(worked.map(({ sessionId }) => eventsOf(desk.pawl.session(sessionId))))
    expect(events.flatMap((ofOne) => ofType(ofOne, 'recovery_started')).length).toBeGreaterThan(0)
    expect(events.flatMap((ofOne) => [...ofType(ofOne, 'tool_attempt_failed')]).length).toBeGreaterThan(0)
  } finally {
    await desk.stop()
    await shop.stop()
  }
})
