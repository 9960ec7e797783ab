// What a model call sets aside under a budget, and what it has cost when it fails.
import { type Model, ModelError, type ModelRequest } from 'pawl'
import { describe, expect, it } from 'vitest'
import type { BudgetLine } from '../../../src/session/spending/budget.ts'
import { type CallBudget, callBudget, reserveFor } from '../../../src/jobs/model-call/call-budget.ts'
import { NO_USAGE } from '../../../src/session/content.ts'
import type { Reservation } from '../../../src/session/spending/reservation.ts'
import { PRICES } from '../../../src/session/spending/prices.ts'

const PRICE = { input: 1, output: 100 }
const model = (more: Partial<Model> = {}): Model => ({
  name: 'm',
  price: PRICE,
  maxTokens: 4_000,
  generate: () => Promise.reject(),
  ...more,
})
const request = (more: Partial<ModelRequest> = {}): ModelRequest => ({
  system: '',
  messages: [{ role: 'user', content: 'x'.repeat(1_000) }],
  tools: [],
  sessionId: 's',
  run: 1,
  turn: 1,
  ...more,
})
const line = (left: number, more: Partial<BudgetLine> = {}): BudgetLine => ({
  scope: 'run',
  unit: 'usd',
  limit: 1,
  spent: 1 - left,
  assumed: 0,
  left,
  ...more,
})

function budget(lines: BudgetLine[], more: Partial<CallBudget> = {}): CallBudget & { reserved: Reservation[]; streamed: number[] } {
  const reserved: Reservation[] = []
  const streamed: number[] = []
  const link = {
    reserve: async (one: Reservation) => void reserved.push(one),
    noteReservation: (one: Reservation) => void reserved.push(one),
    takeShare: async () => expect.fail('no budget is shared'),
    settleShare: () => expect.fail('no budget is shared'),
    reportTokens: (tokens: number) => void streamed.push(tokens),
  }
  return { lines, usdLimit: 'limits', link, reserved, streamed, ...more }
}

const refusalOf = (reserving: Promise<unknown>) =>
  reserving.then(
    () => expect.fail('it was made'),
    (error: unknown) => error as { code: string; message: string; isAssumed: boolean },
  )

describe('a reservation', () => {
  it('a reservation is confirmed before the request may be sent, and leaves max_tokens alone if there is enough', async () => {
    const given = budget([line(1)])
    const { request: sent } = await reserveFor(model(), request(), given)
    expect(sent.maxTokens).toBeUndefined()
    expect(given.reserved).toMatchObject([{ outputTokens: 4_000, outputUsd: 0.4 }])
    // One token per byte.
    expect(given.reserved[0]?.inputTokens).toBeGreaterThan(1_000)
    expect(given.reserved[0]?.inputTokens).toBeLessThan(1_100)
  })

  it('a reservation lowers max_tokens to what the tightest limit allows', async () => {
    const { request: sent } = await reserveFor(model(), request(), budget([line(0.5), line(0.3, { scope: 'session' })]))
    expect(sent.maxTokens).toBeLessThan(3_000)
    expect(sent.maxTokens).toBeGreaterThan(2_980)
  })

  it('a reservation never lowers max_tokens below the thinking budget plus 1,024', async () => {
    const thinking = model({ thinkingTokens: 2_000 })
    expect((await reserveFor(thinking, request(), budget([line(0.31)]))).request.maxTokens).toBeGreaterThanOrEqual(3_024)
    const refused = await refusalOf(reserveFor(thinking, request(), budget([line(0.3)])))
    expect(refused).toMatchObject({ code: 'budget_exhausted', isAssumed: false })
    expect(refused.message).toContain('session.raise({"scope":"run","maxUsd":2})')
  })

  it('a model that does not declare its maximum is asked for at most 8,192 tokens', async () => {
    const { maxTokens: _, ...silent } = model()
    expect((await reserveFor(silent, request(), budget([line(1)]))).request.maxTokens).toBe(8_192)
  })

  it('a reservation counts the last call’s tokens plus new content, and doubles the former for another model', async () => {
    const known = { tokens: 300, model: 'm-20260101', newBytes: 50 }
    const same = budget([line(1)], { known })
    await reserveFor(model(), request(), same)
    const other = budget([line(1)], { known: { ...known, model: 'other' } })
    await reserveFor(model(), request(), other)
    expect([same, other].map(({ reserved }) => reserved[0]?.inputTokens)).toEqual([450, 750])
  })

  it('a reservation counts an image as its tokens, not as its bytes', async () => {
    const image = {
      type: 'image' as const,
      source: { type: 'base64' as const, media_type: 'image/png' as const, data: 'x'.repeat(1_000_000) },
    }
    const given = budget([line(1)])
    await reserveFor(model(), request({ messages: [{ role: 'user', content: [image] }] }), given)
    expect(given.reserved[0]?.inputTokens).toBeLessThan(8_200)
  })

  it('a reservation uses the price of long prompts if the prompt may be that long', async () => {
    const long = PRICES.find(({ above }) => above !== undefined) ?? expect.fail('no such price')
    const { price: _, ...listed } = model({ name: long.model, maxTokens: 1_100 })
    const given = budget([line(1_000_000)])
    await reserveFor(listed, request({ system: 'x'.repeat((long.above?.tokens ?? 0) + 1) }), given)
    expect(given.reserved[0]?.outputUsd).toBeCloseTo((1_100 * (long.above?.output ?? 0)) / 1_000_000, 8)
  })

  it('a reservation is not made for a model without a price, unless only tokens are limited', async () => {
    const { price: _, ...unpriced } = model()
    expect(await refusalOf(reserveFor(unpriced, request(), budget([line(1)])))).toMatchObject({ code: 'unpriced_model' })
    const { usdLimit: __, ...inTokens } = budget([line(9_000, { unit: 'tokens', limit: 9_000, spent: 0 })])
    expect((await reserveFor(unpriced, request(), inTokens)).request.maxTokens).toBeUndefined()
  })

  it('a refused reservation says when only assumed costs are in the way', async () => {
    expect(await refusalOf(reserveFor(model(), request(), budget([line(0.05, { assumed: 0.2 })])))).toMatchObject({ isAssumed: true })
    const both = [line(0.05, { assumed: 0.2 }), line(0.05, { scope: 'session' })]
    expect(await refusalOf(reserveFor(model(), request(), budget(both)))).toMatchObject({ isAssumed: false })
  })

  it('a reservation is not made for an agent without a budget', () => {
    expect(callBudget({ limits: { maxTurns: 1 }, sessionLimits: {} } as never, { state: {} } as never, [], {} as never)).toBeUndefined()
  })
})

describe('a call that fails', () => {
  const cost = async (error: unknown, streamed = 0): Promise<number | undefined> => {
    const call = await reserveFor(model(), request(), budget([line(1)]))
    call.sent()
    if (streamed > 0) call.onDelta({ type: 'text', index: 0, text: 'x'.repeat(streamed) })
    return call.lost(error, undefined)?.tokens
  }
  const connection = (code: string) =>
    new ModelError('connection_error', 'no', { retryable: true, cause: Object.assign(new Error(code), { code }) })

  it.each([
    ['was rejected with a status', new ModelError('rate_limit_error', 'no', { retryable: true, status: 429 })],
    ['was never to be sent', new ModelError('no_api_key', 'no', { retryable: false })],
    ['found no connection', connection('ECONNREFUSED')],
  ])('a call that fails costs nothing if it %s', async (_, error) => {
    expect(await cost(error)).toBeUndefined()
  })

  it.each([
    ['whose connection was cut', connection('ECONNRESET')],
    ['that broke off in the stream', new ModelError('stream_cut', 'no', { retryable: true, phase: 'stream', status: 200 })],
    ['that threw anything else', new Error('no')],
  ])('a call that fails %s costs what was sent, and what may have been in transit', async (_, error) => {
    expect(await cost(error)).toBeGreaterThan(1_256)
    expect(await cost(error)).toBeLessThan(1_356)
  })

  it('a call that fails costs what was streamed, even if the provider then rejects it', async () => {
    const error = new ModelError('overloaded_error', 'no', { retryable: true, status: 529 })
    expect(await cost(error, 500)).toBeGreaterThan(1_756)
  })

  it('a call that fails costs nothing if its request was not sent', async () => {
    const call = await reserveFor(model(), request(), budget([line(1)]))
    expect(call.lost(new Error('no'), undefined)).toBeUndefined()
  })

  it('a call that fails costs its usage if the model answered, but the answer cannot be used', async () => {
    const call = await reserveFor(model(), request(), budget([line(1)]))
    call.sent()
    const usage = { ...NO_USAGE, input_tokens: 10, output_tokens: 20 }
    expect(call.lost(new Error('no'), { content: [], stopReason: 'end_turn', usage })).toEqual({ tokens: 30, usd: 0.00201 })
  })
})

describe('an answer', () => {
  it('an answer is recorded with its price, and with its cost only if its provider does not report the usage', async () => {
    const given = budget([line(1)])
    const call = await reserveFor(model(), request(), given)
    call.sent()
    call.onDelta({ type: 'tool_input', index: 0, partialJson: '12345' })
    expect(given.streamed).toEqual([5])
    const answer = { usage: NO_USAGE, model: 'm' }
    const response = { content: [], stopReason: 'end_turn' as const, usage: { ...NO_USAGE, output_tokens: 5 } }
    expect(call.recorded(answer, response)).toEqual({ price: PRICE })
    expect(call.recorded(answer, { ...response, usage: undefined as never }).spent?.tokens).toBeGreaterThan(1_261)
    expect(call.recorded(answer, { ...response, usage: { ...NO_USAGE, output_tokens: Number.NaN } }).spent).toBeDefined()
  })
})
