// Sessions whose models are language models of the AI SDK: what is recorded, what is sent back, and what it costs.
import { randomUUID } from 'node:crypto'
import { defineAgent, defineTool } from 'pawl'
import type { SessionHandle } from 'pawl/client'
import { aiSdk } from 'pawl/models'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { refused, streamed, type Wire, type WireAnswerSpec, WIRES } from '../support/provider-wires.ts'
import { rowsMatchEvents } from '../support/rows-match.ts'
import { until } from '../support/until.ts'
import { type WireServer, wireServer } from '../support/wire-server.ts'
import type { ModelPrice } from '../../src/session/spending/model-price.ts'

const wireOf = (name: string): Wire => WIRES.find((wire) => wire.name.includes(name)) ?? expect.fail(`no wire ${name}`)
const openai = wireOf('Responses')
const google = wireOf('Google')
/** The gate of this account stays shut for a while, so no other test may use the account. */
const LIMITED = `limited-${randomUUID()}`
const PRICE: ModelPrice = { input: 1, output: 10, cacheRead: 0.5 }

let here: Deployment
let gpt: WireServer
let gemini: WireServer

beforeAll(async () => {
  ;[here, gpt, gemini] = await Promise.all([deploy(), wireServer(), wireServer()])
  const findOrder = defineTool({
    name: 'find_order',
    description: 'Finds an order.',
    input: z.object({ id: z.string() }),
    effect: 'read',
    execute: ({ id }) => `${id} is on its way`,
  })
  const common = { instructions: 'Be brief.', tools: [findOrder], retry: { maxRetries: 1, baseDelay: 1 }, recovery: { automatic: [] } }
  await here.startWorker({
    agents: [
      defineAgent({ ...common, name: 'gpt', model: aiSdk(openai.model(gpt.url)), fallback: aiSdk(google.model(gemini.url)) }),
      defineAgent({ ...common, name: 'limited', model: aiSdk(openai.model(gpt.url), { account: LIMITED }) }),
      defineAgent({ ...common, name: 'priced', model: aiSdk(openai.model(gpt.url), { price: PRICE }) }),
    ],
  })
})
afterEach(() => {
  gpt.reset()
  gemini.reset()
})
afterAll(async () => {
  await here?.stop()
  await Promise.all([gpt?.close(), gemini?.close()])
})

const says = (wire: Wire, spec: WireAnswerSpec) => streamed(wire.chunks(spec))
const calling = (id: string, signature: string): WireAnswerSpec => ({
  thinking: { text: `I need ${id}.`, signature },
  text: ['Looking.'],
  calls: [{ id: `call_${id}`, name: 'find_order', json: [`{"id":"${id}"}`] }],
  stop: 'stop',
  usage: { input: 1000, cached: 400, output: 100 },
})
const ANSWER: WireAnswerSpec = { text: ['It is on its way.'], stop: 'stop', usage: { input: 2000, cached: 1000, output: 50 } }

const open = (agent: string) => here.pawl.session(`ai-sdk-${randomUUID()}`, { agent }) as SessionHandle
const bodies = (server: WireServer) => server.received.map(({ body }) => JSON.stringify(body))

describe('a session with a model of the AI SDK', () => {
  it('a session with an AI SDK model records provider metadata, sends it back, and prices calls from the price table', async () => {
    gpt.answer(says(openai, calling('A7', 'c2lnbmVk')), says(openai, ANSWER), says(openai, ANSWER))
    const session = open('gpt')
    expect(await (await session.send('where is A7?')).result()).toMatchObject({ text: 'It is on its way.', model: openai.answers })
    await (await session.send('thanks')).result()
    const [first] = ofType(await eventsOf(session), 'model_completed')
    expect(first?.provider).toBe('openai.responses')
    expect(first?.content).toEqual([
      {
        type: 'thinking',
        thinking: 'I need A7.',
        signature: '',
        provider: 'openai.responses',
        providerMetadata: { openai: expect.objectContaining({ itemId: 'rs_1', reasoningEncryptedContent: 'c2lnbmVk' }) },
      },
      { type: 'text', text: 'Looking.', provider: 'openai.responses', providerMetadata: expect.anything() },
      expect.objectContaining({ type: 'tool_use', name: 'find_order', input: { id: 'A7' }, provider: 'openai.responses' }),
    ])
    for (const sent of bodies(gpt).slice(1)) {
      expect(sent).toContain('c2lnbmVk')
      expect(sent).toContain('"call_id":"t_1_1_0"')
    }
    const { rows } = await rowsMatchEvents(here.stack, session.id)
    // 600 × $2.50 + 400 × $0.25 + 100 × $15, per million tokens.
    expect(rows.token_usage[0]).toMatchObject({ model: openai.answers, provider: 'openai', input_tokens: 600, price_date: '2026-03-05' })
    expect(Number(rows.token_usage[0]?.usd)).toBe(0.0031)
  })

  it('a session with a model of the AI SDK is charged at the price that the Model declares, in every total', async () => {
    gpt.answer(says(openai, calling('A7', 'c2ln')), says(openai, ANSWER))
    const session = open('priced')
    await (await session.send('where is A7?')).result()
    const { rows } = await rowsMatchEvents(here.stack, session.id)
    // 600 × $1 + 400 × $0.50 + 100 × $10, then 1,000 × $1 + 1,000 × $0.50 + 50 × $10.
    expect(rows.token_usage.map(({ usd, price_date }) => [Number(usd), price_date])).toEqual([
      [0.0018, null],
      [0.002, null],
    ])
    expect(Number(rows.sessions[0]?.usd)).toBe(0.0038)
  })

  it('a session with an AI SDK model retries a call whose stream was cut off, and discards the first answer', async () => {
    const dead = calling('DEAD', 'ZGVhZA==')
    gpt.answer(streamed(openai.chunks(dead).slice(0, -2), 'destroy'), says(openai, calling('A7', 'c2ln')), says(openai, ANSWER))
    const session = open('gpt')
    expect((await (await session.send('where is A7?')).result()).text).toBe('It is on its way.')
    const [first, again, last] = bodies(gpt)
    expect(again).toBe(first)
    expect(last).not.toMatch(/DEAD|ZGVhZA/)
    expect(ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => error)).toMatchObject([
      { attempt: 1, class: 'ModelError', code: 'stream_cut', phase: 'stream', retryable: true },
    ])
  })

  it('a session sends provider metadata only to the provider that it came from, even after a fallback has answered', async () => {
    gpt.answer(says(openai, calling('A7', 'c2lnbmVk')), refused(openai, 401, 'invalid_api_key', 'No such key.'), says(openai, ANSWER))
    gemini.answer(says(google, calling('B8', 'Z29vZ2xl')))
    const session = open('gpt')
    expect((await (await session.send('where are A7 and B8?')).result()).text).toBe('It is on its way.')
    const [toGemini] = bodies(gemini)
    expect(toGemini).toContain('A7 is on its way')
    expect(toGemini).not.toMatch(/c2lnbmVk|I need A7|rs_1|openai/)
    const last = bodies(gpt).at(-1)
    expect(last).toContain('c2lnbmVk')
    expect(last).toContain('B8 is on its way')
    expect(last).not.toMatch(/Z29vZ2xl|I need B8/)
    expect(ofType(await eventsOf(session), 'model_completed').map(({ model }) => model)).toEqual([
      openai.answers,
      'gemini-3.5-flash',
      openai.answers,
    ])
  })

  it('a session answers an AI SDK model’s malformed arguments with an error, and the model corrects itself', async () => {
    const spec = calling('A7', 'c2ln')
    const wrong = { ...spec, calls: [{ id: 'call_1', name: 'find_order', json: ['{"id": "A7", }'] }] }
    gpt.answer(says(openai, wrong), says(openai, spec), says(openai, ANSWER))
    const session = open('gpt')
    expect((await (await session.send('where is A7?')).result()).text).toBe('It is on its way.')
    expect(ofType(await eventsOf(session), 'tool_failed')).toHaveLength(1)
    expect(bodies(gpt)[1]).toContain('INVALID_JSON')
  })

  it('a session with a model of the AI SDK shuts the gate of its account when the provider asks for fewer calls', async () => {
    gpt.answer(refused(openai, 429, 'rate_limit_exceeded', 'Slow down.', { 'retry-after-ms': '300' }), says(openai, ANSWER))
    const session = open('limited')
    expect((await (await session.send('where is A7?')).result()).text).toBe('It is on its way.')
    expect(ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => error.code)).toEqual(['rate_limit_error'])
    const client = new pg.Client(here.stack.databaseUrl)
    await client.connect()
    try {
      await until('the gate is stored', async () => {
        const { rows } = await client.query('select key from pawl.gates where key = $1', [`openai.responses ${LIMITED}`])
        return rows.length === 1
      })
    } finally {
      await client.end()
    }
  })
})
