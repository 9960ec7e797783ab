// What tools return and receive: every value has a defined outcome, and `ctx` says for whom and on which attempt a tool runs.
import { defineAgent, defineTool, type Json, type Model, type ToolContext } from 'pawl'
import { scripted } from 'pawl/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { openStore, type Store } from '../../src/store/index.ts'
import { type Deployment, deploy } from '../support/deployment.ts'
import { eventsOf, ofType } from '../support/events.ts'
import { inOrder, resultsIn, type Stage, stage, use } from '../support/scenes.ts'
import { until } from '../support/until.ts'

let here: Deployment
let player: Stage
let store: Store
let seen: ToolContext | undefined

const circular: { self?: unknown } = {}
circular.self = circular

/** What the tool `odd` returns, by name. */
const ODD: Record<string, unknown> = {
  undefined: undefined,
  null: null,
  zero: 0,
  'an empty string': '',
  'a BigInt': 12n,
  'a circular value': circular,
  'a Date': new Date(0),
  'a Map': new Map([['a', 1]]),
  'a function': () => 1,
  'NUL bytes and a lone surrogate': 'a\u0000b\ud800c',
  '3 MB': 'x'.repeat(3_000_000),
  '3 MB of JSON': { rows: Array.from({ length: 30_000 }, (_, n) => ({ n, text: 'y'.repeat(90) })) },
  'content blocks': [
    { type: 'text', text: 'look:' },
    { type: 'image', source: { type: 'url', url: 'https://example.com/cat.png' } },
  ],
  'nested __proto__ and number keys': JSON.parse('{"2":"b","1":"a","__proto__":{"x":1}}'),
}

const odd = defineTool({
  name: 'odd',
  description: 'Returns something odd.',
  input: z.object({ what: z.string() }),
  effect: 'idempotent',
  execute: ({ what }) => ODD[what],
})
const mapped = defineTool({
  name: 'mapped',
  description: 'Says to the model something else than it returns.',
  input: z.object({ what: z.string() }),
  effect: 'external',
  execute: ({ what }) => ({ id: `id of ${what}`, secret: 'not for the model' }),
  toModel(result, ctx) {
    if (result.id.includes('bad')) throw new Error('toModel is broken')
    return `${result.id}, attempt ${ctx.attempt}`
  },
  effectId(result) {
    if (result.id.includes('bad')) throw new Error('effectId is broken')
    return result.id
  },
})
const lenient = defineTool({
  name: 'lenient',
  description: 'Has defaults and transforms.',
  input: z.object({ at: z.string().transform((text) => new Date(text)), times: z.number().default(3) }),
  effect: 'read',
  execute: ({ at, times }) => `${at.getUTCFullYear()} x${times}`,
})
const witness = defineTool({
  name: 'witness',
  description: 'Remembers its ctx.',
  input: z.object({ what: z.string() }),
  effect: 'idempotent',
  async execute(_input, ctx) {
    seen = ctx
    return { mine: await ctx.stillMine(), secret: ctx.services.secret }
  },
})
const script = (request: Parameters<Parameters<typeof scripted>[0]>[0]) =>
  inOrder(...(JSON.parse(String(request.messages[0]!.content)) as never[]))(request)
const oddAgent = defineAgent({ name: 'odd', instructions: 'Be odd.', model: scripted(script), tools: [odd, mapped, lenient, witness] })
/** Answers what the message says, unchecked, as a Model is user code. */
const raw: Model = {
  name: 'raw',
  async generate({ messages }) {
    return JSON.parse(String(messages[0]!.content).replace('HUGE', 'x'.repeat(2_000_000)))
  },
}
const tenant = defineAgent({
  name: 'tenant',
  instructions: ({ state }, ctx) => `For ${JSON.stringify(ctx.context)}, run ${state.run}.`,
  model: scripted((request) => request.system),
  context: z.object({ tenantId: z.string() }),
})

beforeAll(async () => {
  here = await deploy()
  player = stage()
  store = openStore({ postgres: here.stack.databaseUrl })
  await here.startWorker({
    agents: [player.agent, oddAgent, tenant, defineAgent({ name: 'raw', instructions: '', model: raw })],
    services: { secret: 's3cret' },
  })
})
afterAll(async () => {
  await store?.close()
  await here?.stop()
})

/** Plays a session whose model returns these answers. */
async function play(...answers: unknown[]) {
  const session = here.pawl.session(undefined, { agent: 'odd', context: { who: 'me' }, tags: ['a', 'b'] })
  const result = await (await session.send(JSON.stringify(answers), { metadata: { via: 'test' } })).result({ timeout: 30_000 })
  const events = await eventsOf(session)
  const rows = await until('the messages are stored', async () => {
    const stored = await session.messages()
    return (
      stored.filter(({ role }) => role === 'assistant').length ===
        ofType(events, 'model_completed').filter(({ content }) => content.length > 0).length && stored
    )
  })
  const told = rows.flatMap(({ content }) =>
    typeof content === 'string' ? [] : content.flatMap((block) => (block.type === 'tool_result' ? [block] : [])),
  )
  return { session, result, events, told }
}

describe('a result that is', () => {
  const recorded: [string, Json, unknown][] = [
    ['undefined', null, 'null'],
    ['null', null, 'null'],
    ['zero', 0, '0'],
    ['an empty string', '', ''],
    ['a Date', '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z'],
    ['a Map', {}, '{}'],
    ['a function', null, 'null'],
    ['NUL bytes and a lone surrogate', 'a\u0000b\ud800c', 'a\u0000b\ud800c'],
    ['content blocks', ODD['content blocks'] as Json, ODD['content blocks']],
    ['nested __proto__ and number keys', ODD['nested __proto__ and number keys'] as Json, '{"1":"a","2":"b","__proto__":{"x":1}}'],
  ]
  for (const [what, value, content] of recorded) {
    it(`${what} is recorded in its JSON form, and shown to the model`, async () => {
      const { events, told } = await play([use('odd', what)], 'done')
      expect(ofType(events, 'tool_completed')[0]?.value).toEqual(value)
      expect(told).toMatchObject([{ content }])
      expect(told[0]).not.toHaveProperty('is_error')
    })
  }

  for (const what of ['a BigInt', 'a circular value']) {
    it(`${what} has no JSON form: the call completes, and the model is told why it sees no result`, async () => {
      const { events, told } = await play([use('odd', what)], 'done')
      expect(ofType(events, 'tool_completed')).toHaveLength(1)
      expect(told[0]!.content).toMatch(/completed.*no JSON form/s)
    })
  }

  for (const what of ['3 MB', '3 MB of JSON']) {
    it(`${what} is kept in the store, referenced in the event, and shown to the model as a whole`, async () => {
      const { events, told } = await play([use('odd', what)], 'done')
      const [completed] = ofType(events, 'tool_completed')
      expect(completed).toMatchObject({ blob: { sha256: expect.stringMatching(/^[0-9a-f]{64}$/) } })
      expect(completed?.blob?.bytes).toBeGreaterThan(3_000_000)
      expect(JSON.stringify(completed).length).toBeLessThan(20_000)
      expect(JSON.stringify(told).length).toBeGreaterThan(3_000_000)
    })
  }

  it('a result that is mapped by toModel is recorded unmapped, and effectId names the effect', async () => {
    const { session, events, told } = await play([use('mapped', 'it')], 'done')
    expect(ofType(events, 'tool_completed')[0]).toMatchObject({
      value: { id: 'id of it', secret: 'not for the model' },
      effectId: 'id of it',
    })
    expect(told).toMatchObject([{ content: 'id of it, attempt 1' }])
    expect(await store.lists.toolCallsOf(session.id)).toMatchObject([{ tool: 'mapped', status: 'completed', effectId: 'id of it' }])
  })

  it('a result is recorded without a toModel or effectId that throws, because the effect has happened', async () => {
    const { events, told } = await play([use('mapped', 'bad')], 'done')
    expect(ofType(events, 'tool_completed')[0]?.effectId).toBeUndefined()
    expect(told).toMatchObject([{ content: '{"id":"id of bad","secret":"not for the model"}' }])
  })
})

it('arguments are parsed where the tool runs: defaults and transforms apply, and the raw arguments are recorded', async () => {
  const { events, told } = await play([{ type: 'tool_use', id: 'x', name: 'lenient', input: { at: '2020-05-01' } }], 'done')
  expect(told).toMatchObject([{ content: '2020 x3' }])
  expect(ofType(events, 'tool_issued')[0]?.input).toEqual({ at: '2020-05-01' })
})

it('a tool can tell for whom, where and in which attempt it runs', async () => {
  const { session, told } = await play([use('witness', 'it')], 'done')
  expect(told).toMatchObject([{ content: '{"mine":true,"secret":"s3cret"}' }])
  expect(seen).toMatchObject({
    sessionId: session.id,
    agent: 'odd',
    run: 1,
    turn: 1,
    callId: 't_1_1_0',
    attempt: 1,
    context: { who: 'me' },
    metadata: { via: 'test' },
    tags: ['a', 'b'],
    idempotencyKey: expect.stringMatching(/^[0-9a-f]{64}$/),
  })
  expect(seen?.signal).toBeInstanceOf(AbortSignal)
})

describe('the context', () => {
  it('a context that matches the agent’s schema is passed to the instructions on every call', async () => {
    const session = here.pawl.session<typeof tenant>(undefined, { agent: 'tenant', context: { tenantId: 't1' } })
    expect((await (await session.send('hello')).result({ timeout: 30_000 })).text).toBe('For {"tenantId":"t1"}, run 1.')
    expect((await (await session.send('hello')).result({ timeout: 30_000 })).text).toBe('For {"tenantId":"t1"}, run 2.')
  })

  it('a context that does not match the agent’s schema ends the run as invalid_context', async () => {
    const session = here.pawl.session(undefined, { agent: 'tenant', context: { tenant: 7 } })
    await expect((await session.send('hello')).result({ timeout: 30_000 })).rejects.toMatchObject({
      name: 'RunFailedError',
      code: 'invalid_context',
    })
  })
})

describe('an answer of the model that', () => {
  it('an answer of the model that is empty ends the run without text', async () => {
    const { result } = await play({ content: [], stopReason: 'end_turn' })
    expect(result).toMatchObject({ text: '', message: { content: [] } })
  })

  it('an answer of the model that asks for no tools but says tool_use is asked for once more, and then fails the run', async () => {
    const session = here.pawl.session(undefined, { agent: 'odd', context: { who: 'me' } })
    const handle = await session.send(JSON.stringify([{ content: [{ type: 'text', text: 'hm' }], stopReason: 'tool_use' }]))
    await expect(handle.result({ timeout: 30_000 })).rejects.toMatchObject({ code: 'calls_missing' })
    expect(ofType(await eventsOf(session), 'model_attempt_failed')).toHaveLength(2)
  })

  it('an answer of the model that pauses its turn leads to the next turn', async () => {
    const { result } = await play({ content: [{ type: 'text', text: 'a moment' }], stopReason: 'pause_turn' }, 'there')
    expect(result).toMatchObject({ text: 'there', run: 1 })
  })

  for (const stopReason of ['max_tokens', 'stop_sequence', 'refusal', 'model_context_window_exceeded']) {
    it(`an answer of the model that stops with ${stopReason} ends the run, whose result says so`, async () => {
      const { result } = await play({ content: [{ type: 'text', text: 'cut' }], stopReason })
      expect(result).toMatchObject({ text: 'cut', stopReason })
    })
  }

  const unusable: [what: string, answer: unknown, code?: string][] = [
    ['has unknown blocks', { content: [{ type: 'video' }] }, 'unknown_block'],
    ['has a text block without text', { content: [{ type: 'text' }] }],
    ['has a null block', { content: [null] }],
    ['has no content', {}],
    ['is null', null],
    ['stops for an unknown reason', { content: [], stopReason: 'bored' }],
    ['is larger than can be recorded', { content: [{ type: 'text', text: 'HUGE' }] }],
  ]
  for (const [what, answer, code = 'invalid_response'] of unusable) {
    it(`${what} ends the run with a clear error, without retries`, async () => {
      const session = here.pawl.session(undefined, { agent: 'raw' })
      const settled = await (await session.send(JSON.stringify(answer))).settled({ timeout: 30_000 })
      expect(settled).toMatchObject({ status: 'failed', code })
      expect(ofType(await eventsOf(session), 'model_attempt_failed').map(({ error }) => error.attempt)).toEqual([1])
    })
  }

  it('an answer of the model that asks for a tool with NUL bytes and lone surrogates everywhere runs it', async () => {
    const { session, requests } = player.play(here.pawl, {
      model: inOrder([use('put', 'a\u0000\ud800')], 'd\u0000ne\udfff'),
      put: ({ what }) => what,
    })
    const result = await (await session.send('x\u0000\ud800')).result({ timeout: 30_000 })
    expect(result.text).toBe('d\u0000ne\udfff')
    expect(resultsIn(requests[1]!)).toMatchObject([{ content: 'a\u0000\ud800' }])
    expect((await session.messages())[0]?.content).toBe('x\u0000\ud800')
  })
})
