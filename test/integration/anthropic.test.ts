// The Anthropic adapter over HTTP: against an independent fake of the API, and against raw wire bytes for what the fake cannot express.
import type { ServerResponse } from 'node:http'
import Anthropic from '@anthropic-ai/sdk'
import { LLMock } from '@copilotkit/aimock'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { ModelError } from '../../src/agent/errors.ts'
import type { ModelCallContext, ModelRequest } from '../../src/agent/model.ts'
import type { ModelDelta } from '../../src/session/watching/deltas.ts'
import { anthropic, modelOf } from '../../src/models/anthropic.ts'
import type { Message } from '../../src/session/content.ts'
import { type WireServer, wireServer } from '../support/wire-server.ts'
import type { AnthropicOptions } from '../../src/models/anthropic-options.ts'

const MODEL = 'claude-sonnet-5-5'
const tools = [
  { name: 'find_order', description: 'Finds an order.', input_schema: { type: 'object', properties: { id: { type: 'string' } } } },
]

function asking(content: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return { system: 'Be brief.', messages: [{ role: 'user', content }], tools, sessionId: 's', run: 1, turn: 1, ...more }
}

function callContext(
  signal = new AbortController().signal,
  onDelta?: (delta: ModelDelta) => void,
): ModelCallContext & { deltas: ModelDelta[] } {
  const deltas: ModelDelta[] = []
  return {
    signal,
    attempt: 1,
    deltas,
    onDelta(delta) {
      deltas.push(delta)
      onDelta?.(delta)
    },
  }
}

async function failureOf(promise: Promise<unknown>): Promise<ModelError> {
  const error = await promise.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  expect(error).toBeInstanceOf(ModelError)
  return error as ModelError
}

describe('against an independent fake of the API', () => {
  const fake = new LLMock({ port: 0, strict: true })
  const model = (options: AnthropicOptions = {}) => anthropic(MODEL, { apiKey: 'test', baseURL: fake.url, ...options })
  beforeAll(() => fake.start())
  afterAll(() => fake.stop())
  afterEach(() => fake.reset())

  it('the Anthropic adapter streams text and reports its usage', async () => {
    fake.onMessage('hello', { content: 'Hi there, how are you?', usage: { input_tokens: 11, output_tokens: 7 } }, { chunkSize: 5 })
    const ctx = callContext()
    const response = await model().generate(asking('hello'), ctx)
    expect(response).toEqual({
      content: [{ type: 'text', text: 'Hi there, how are you?' }],
      stopReason: 'end_turn',
      usage: { input_tokens: 11, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 },
      model: MODEL,
    })
    expect(ctx.deltas.length).toBeGreaterThan(3)
    expect(ctx.deltas.map((delta) => delta.type === 'text' && delta.text).join('')).toBe('Hi there, how are you?')
  })

  it('the Anthropic adapter returns a tool call with its arguments', async () => {
    fake.onMessage('order', { content: 'Looking.', toolCalls: [{ name: 'find_order', arguments: '{"id":"A7"}', id: 'toolu_1' }] })
    const ctx = callContext()
    const response = await model().generate(asking('order'), ctx)
    expect(response.stopReason).toBe('tool_use')
    expect(response.content).toEqual([
      { type: 'text', text: 'Looking.' },
      { type: 'tool_use', id: 'toolu_1', name: 'find_order', input: { id: 'A7' } },
    ])
    expect(ctx.deltas.flatMap((delta) => (delta.type === 'tool_input' ? [delta.partialJson] : [])).join('')).toBe('{"id":"A7"}')
  })

  it('the Anthropic adapter returns parallel calls in the order in which the model made them', async () => {
    const toolCalls = ['A', 'B', 'C'].map((id) => ({ name: 'find_order', arguments: { id }, id: `toolu_${id}` }))
    fake.onMessage('orders', { toolCalls }, { chunkSize: 1 })
    const { content } = await model().generate(asking('orders'), callContext())
    expect(content.map((block) => block.type === 'tool_use' && [block.id, block.input])).toEqual([
      ['toolu_A', { id: 'A' }],
      ['toolu_B', { id: 'B' }],
      ['toolu_C', { id: 'C' }],
    ])
  })

  it('the Anthropic adapter keeps thinking with its signature, and sends it back as a tool loop requires', async () => {
    const thinking = { type: 'enabled', budget_tokens: 2000 } as const
    fake.onToolResult('toolu_1', { content: 'Found.' })
    fake.onMessage(
      'think',
      {
        toolCalls: [{ name: 'find_order', arguments: '{}', id: 'toolu_1' }],
        reasoning: 'An order it is.',
        reasoningSignature: 'c2ln',
        redactedThinking: ['eA=='],
      },
      { chunkSize: 4 },
    )
    const first = await model({ thinking }).generate(asking('think'), callContext())
    expect(first.content).toEqual([
      { type: 'redacted_thinking', data: 'eA==' },
      { type: 'thinking', thinking: 'An order it is.', signature: 'c2ln' },
      { type: 'tool_use', id: 'toolu_1', name: 'find_order', input: {} },
    ])
    const messages: Message[] = [
      { role: 'user', content: 'think' },
      { role: 'assistant', content: first.content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 'toolu_1', content: 'A7' }] },
    ]
    const second = await model({ thinking }).generate(asking('', { messages }), callContext())
    expect(second.content).toEqual([{ type: 'text', text: 'Found.' }])
  })

  it.each([
    ['stop', 'end_turn'],
    ['length', 'max_tokens'],
    ['tool_calls', 'tool_use'],
    ['stop_sequence', 'stop_sequence'],
    ['pause_turn', 'pause_turn'],
    ['refusal', 'refusal'],
    ['model_context_window_exceeded', 'model_context_window_exceeded'],
    ['something_new', 'end_turn'],
  ])('the Anthropic adapter reads the stop reason %s as %s', async (finishReason, stopReason) => {
    fake.onMessage('why', { content: 'So.', finishReason })
    expect((await model().generate(asking('why'), callContext())).stopReason).toBe(stopReason)
  })

  it('the Anthropic adapter makes one request on a 429, and reports it as retryable after the time in retry-after', async () => {
    fake.onMessage('hello', { error: { type: 'rate_limit_error', message: 'Slow down.' }, status: 429, retryAfter: 3 })
    const error = await failureOf(
      model({ client: new Anthropic({ apiKey: 'test', baseURL: fake.url, maxRetries: 5 }) }).generate(asking('hello'), callContext()),
    )
    expect(error).toMatchObject({ code: 'rate_limit_error', status: 429, retryable: true, retryAfterMs: 3000 })
    expect(error.message).toContain('Slow down.')
    expect(fake.getRequests()).toHaveLength(1)
  })

  it.each([
    [529, 'overloaded_error', true],
    [500, 'api_error', true],
    [408, 'timeout_error', true],
    [409, 'conflict_error', true],
    [400, 'invalid_request_error', false],
    [401, 'authentication_error', false],
    [404, 'not_found_error', false],
  ])('the Anthropic adapter reports %i as %s; retryable: %s', async (status, type, retryable) => {
    fake.onMessage('hello', { error: { type, message: 'No.' }, status })
    expect(await failureOf(model().generate(asking('hello'), callContext()))).toMatchObject({ code: type, status, retryable })
    expect(fake.getRequests()).toHaveLength(1)
  })

  it('the Anthropic adapter reports a stream that is cut in the middle of the answer as retryable', async () => {
    fake.onMessage('hello', { content: 'A long answer that never ends' }, { chunkSize: 2, truncateAfterChunks: 5, latency: 10 })
    const ctx = callContext()
    expect(await failureOf(model().generate(asking('hello'), ctx))).toMatchObject({
      code: 'stream_cut',
      retryable: true,
      status: undefined,
    })
    expect(ctx.deltas.length).toBeGreaterThan(0)
  })

  it('the Anthropic adapter reports an answer that is not a stream at all as retryable', async () => {
    fake.onMessage('hello', { content: 'Hi.' }, { chaos: { malformedRate: 1 } })
    expect(await failureOf(model().generate(asking('hello'), callContext()))).toMatchObject({ code: 'stream_cut', retryable: true })
  })

  it('the Anthropic adapter reports a connection that is dropped before any answer as retryable', async () => {
    fake.onMessage('hello', { content: 'Hi.' }, { chaos: { disconnectRate: 1 } })
    expect(await failureOf(model().generate(asking('hello'), callContext()))).toMatchObject({ code: 'connection_error', retryable: true })
  })

  it('the Anthropic adapter ends the stream on an abort, and throws its reason unchanged', async () => {
    fake.onMessage('hello', { content: 'A slow answer' }, { chunkSize: 1, latency: 50 })
    const reason = new Error('interrupted by a person')
    const controller = new AbortController()
    const ctx = callContext(controller.signal, () => controller.abort(reason))
    await expect(model().generate(asking('hello'), ctx)).rejects.toBe(reason)
    expect(ctx.deltas).toHaveLength(1)
  })

  it('the Anthropic adapter throws the reason of an abort unchanged, before the answer begins and before the call', async () => {
    fake.onMessage('hello', { content: 'Hi.' }, { chaos: { latencyMs: 5000 } })
    const reason = new Error('worker is shutting down')
    const controller = new AbortController()
    setTimeout(() => controller.abort(reason), 50)
    await expect(model().generate(asking('hello'), callContext(controller.signal))).rejects.toBe(reason)
    await expect(model().generate(asking('hello'), callContext(AbortSignal.abort(reason)))).rejects.toBe(reason)
  })
})

type WireEvent = { type: string; [key: string]: unknown }

const sse =
  (events: WireEvent[], end: 'end' | 'open' | 'destroy' = 'end') =>
  (res: ServerResponse) => {
    res.writeHead(200, { 'content-type': 'text/event-stream' })
    for (const event of events) res.write(`event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)
    if (end === 'end') res.end()
    if (end === 'destroy') setTimeout(() => res.destroy(), 20)
  }

const refusal = (status: number, type: string, message: string) => (res: ServerResponse) => {
  res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ type: 'error', error: { type, message } }))
}

const start = (usage: object = { input_tokens: 3, output_tokens: 1 }): WireEvent => ({
  type: 'message_start',
  message: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'claude-x-1',
    content: [],
    stop_reason: null,
    stop_sequence: null,
    usage,
  },
})
const end = (stop_reason: string | null, usage: object = { output_tokens: 9 }): WireEvent[] => [
  { type: 'message_delta', delta: { stop_reason, stop_sequence: null }, usage },
  { type: 'message_stop' },
]
const textBlock = (index: number, text: string): WireEvent[] => [
  { type: 'content_block_start', index, content_block: { type: 'text', text: '' } },
  { type: 'content_block_delta', index, delta: { type: 'text_delta', text } },
  { type: 'content_block_stop', index },
]
const toolBlock = (index: number, ...json: string[]): WireEvent[] => [
  { type: 'content_block_start', index, content_block: { type: 'tool_use', id: `toolu_${index}`, name: 'find_order', input: {} } },
  ...json.map((partial_json) => ({ type: 'content_block_delta', index, delta: { type: 'input_json_delta', partial_json } })),
  { type: 'content_block_stop', index },
]

describe('on the wire', () => {
  let server: WireServer
  const model = (options: AnthropicOptions = {}) => anthropic(MODEL, { apiKey: 'test', baseURL: server.url, ...options })
  beforeAll(async () => {
    server = await wireServer()
  })
  afterEach(() => {
    server.received.length = 0
    vi.unstubAllEnvs()
  })
  afterAll(() => server.close())

  it('the Anthropic adapter sends cache breakpoints on tools, system prompt and the last two user messages, and streams', async () => {
    server.answer(sse([start(), ...textBlock(0, 'ok'), ...end('end_turn')]))
    const messages: Message[] = [
      { role: 'user', content: 'one' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: '', signature: 's' },
          { type: 'tool_use', id: 't_1_1_0', name: 'find_order', input: { id: 'A' } },
        ],
      },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'found' }] },
      { role: 'user', content: 'two' },
    ]
    await model({ maxTokens: 500 }).generate(asking('', { messages }), callContext())
    const cache_control = { type: 'ephemeral' }
    expect(server.received[0]?.body).toEqual({
      model: MODEL,
      max_tokens: 500,
      stream: true,
      tools: [{ ...tools[0], cache_control }],
      system: [{ type: 'text', text: 'Be brief.', cache_control }],
      messages: [
        { role: 'user', content: [{ type: 'text', text: 'one', cache_control }] },
        { role: 'assistant', content: messages[1]?.content },
        {
          role: 'user',
          content: [
            { type: 'tool_result', tool_use_id: 't_1_1_0', content: 'found' },
            { type: 'text', text: 'two', cache_control },
          ],
        },
      ],
    })
  })

  it('the Anthropic adapter counts tokens, and ignores null and absent counters', async () => {
    const usage = { input_tokens: 20, output_tokens: 1, cache_creation_input_tokens: null, cache_read_input_tokens: 400 }
    server.answer(
      sse([
        start(usage),
        ...textBlock(0, 'ok'),
        ...end('end_turn', { output_tokens: 12, input_tokens: null, cache_creation_input_tokens: 50 }),
      ]),
    )
    const response = await model().generate(asking('hi'), callContext())
    expect(response.usage).toEqual({ input_tokens: 20, output_tokens: 12, cache_creation_input_tokens: 50, cache_read_input_tokens: 400 })
    expect(response.model).toBe('claude-x-1')
  })

  it('the Anthropic adapter passes on arguments that are not JSON as plain text', async () => {
    server.answer(sse([start(), ...toolBlock(0, '{"id": "A', '7", }'), ...toolBlock(1, '{"id":"B"}'), ...toolBlock(2), ...end('tool_use')]))
    const response = await model().generate(asking('hi'), callContext())
    expect(response.stopReason).toBe('tool_use')
    expect(response.content.map((block) => block.type === 'tool_use' && block.input)).toEqual(['{"id": "A7", }', { id: 'B' }, {}])
  })

  it('the Anthropic adapter never mistakes a call that max_tokens cut off for one without arguments', async () => {
    server.answer(sse([start(), ...toolBlock(0, '{"id":"B"}'), ...toolBlock(1), ...end('max_tokens')]))
    const response = await model().generate(asking('hi'), callContext())
    expect(response.content.map((block) => block.type === 'tool_use' && block.input)).toEqual([{ id: 'B' }, ''])
  })

  it('the Anthropic adapter leaves out empty text, and returns a block that it does not know by its name only', async () => {
    const foreign = {
      type: 'content_block_start',
      index: 1,
      content_block: { type: 'mcp_tool_use', id: 'mcp', name: 'find', server_name: 'shop', input: {} },
    }
    server.answer(sse([start(), ...textBlock(0, ''), foreign, { type: 'ping' }, ...textBlock(2, 'ok'), ...end('end_turn')]))
    expect((await model().generate(asking('hi'), callContext())).content).toEqual([{ type: 'mcp_tool_use' }, { type: 'text', text: 'ok' }])
  })

  it('the Anthropic adapter accepts an empty answer', async () => {
    server.answer(sse([start(), ...end('end_turn')]))
    expect(await model().generate(asking('hi'), callContext())).toMatchObject({ content: [], stopReason: 'end_turn' })
  })

  it('the Anthropic adapter reads an unknown stop reason with calls as tool_use', async () => {
    server.answer(sse([start(), ...toolBlock(0, '{}'), ...end('quite_new')]))
    expect((await model().generate(asking('hi'), callContext())).stopReason).toBe('tool_use')
  })

  it.each([
    ['overloaded_error', true],
    ['api_error', true],
    ['rate_limit_error', true],
    ['invalid_request_error', false],
  ])('the Anthropic adapter reports an error event %s in the middle of the answer; retryable: %s', async (type, retryable) => {
    server.answer(sse([start(), ...textBlock(0, 'part'), { type: 'error', error: { type, message: 'Sorry.' } }]))
    const error = await failureOf(model().generate(asking('hi'), callContext()))
    expect(error).toMatchObject({ code: type, retryable, status: undefined })
    expect(error.message).toContain('Sorry.')
  })

  it('the Anthropic adapter fails a call whose arguments were cut off with the stream, and reports it as retryable', async () => {
    server.answer(sse([start(), ...toolBlock(0, '{"id":').slice(0, 2)]), sse([start(), ...toolBlock(0, '{"id":').slice(0, 2)], 'destroy'))
    expect(await failureOf(model().generate(asking('hi'), callContext()))).toMatchObject({ code: 'stream_cut', retryable: true })
    expect(await failureOf(model().generate(asking('hi'), callContext()))).toMatchObject({ code: 'stream_cut', retryable: true })
  })

  it('the Anthropic adapter loses nothing if the connection drops after the end of the answer', async () => {
    server.answer(sse([start(), ...textBlock(0, 'ok'), ...end('end_turn')], 'destroy'))
    expect((await model().generate(asking('hi'), callContext())).content).toEqual([{ type: 'text', text: 'ok' }])
  })

  it('the Anthropic adapter times out after too long a silence, before the answer and in the middle of it', async () => {
    server.answer(() => undefined, sse([start(), ...textBlock(0, 'part')], 'open'))
    const impatient = model({ timeout: '150ms' })
    expect(await failureOf(impatient.generate(asking('hi'), callContext()))).toMatchObject({ code: 'timeout', retryable: true })
    expect(await failureOf(impatient.generate(asking('hi'), callContext()))).toMatchObject({ code: 'timeout', retryable: true })
  })

  it('the Anthropic adapter repeats the call once without thinking if the API rejects the old thinking', async () => {
    server.answer(
      refusal(
        400,
        'invalid_request_error',
        'messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.',
      ),
      sse([start(), ...textBlock(0, 'ok'), ...end('end_turn')]),
    )
    const messages: Message[] = [
      { role: 'user', content: 'one' },
      {
        role: 'assistant',
        content: [
          { type: 'thinking', thinking: 'hm', signature: 's' },
          { type: 'text', text: 'two' },
        ],
      },
      { role: 'user', content: 'three' },
    ]
    expect((await model().generate(asking('', { messages }), callContext())).content).toEqual([{ type: 'text', text: 'ok' }])
    expect(server.received.map(({ body }) => JSON.stringify(body.messages).includes('"thinking"'))).toEqual([true, false])
  })

  it('the Anthropic adapter says what to set if there is no key, and finds the key once it is set', async () => {
    for (const name of ['ANTHROPIC_API_KEY', 'ANTHROPIC_AUTH_TOKEN']) vi.stubEnv(name, '')
    const claude = modelOf(MODEL)
    const error = await failureOf(claude.generate(asking('hi'), callContext()))
    expect(error).toMatchObject({ code: 'no_api_key', retryable: false, message: expect.stringContaining('Set ANTHROPIC_API_KEY') })
    vi.stubEnv('ANTHROPIC_API_KEY', 'key-from-env')
    vi.stubEnv('ANTHROPIC_BASE_URL', server.url)
    server.answer(sse([start(), ...textBlock(0, 'ok'), ...end('end_turn')]))
    await claude.generate(asking('hi'), callContext())
    expect(server.received[0]?.headers.authorization).toBe('Bearer key-from-env')
    expect(modelOf(MODEL)).toBe(claude)
  })
})

describe('options that cannot work', () => {
  it.each<[string, AnthropicOptions]>([
    ['', {}],
    [MODEL, { maxTokens: 0 }],
    [MODEL, { timeout: -1 }],
    [MODEL, { temperature: 1 } as AnthropicOptions],
    [MODEL, { params: { top_p: 0.9 } as object }],
    [MODEL, { params: { cache_control: { type: 'ephemeral' } } }],
    [MODEL, { price: { input: -1, output: 1 } }],
    [MODEL, { maxTokens: 2000, thinking: { type: 'enabled', budget_tokens: 2000 } }],
  ])('options that cannot work are refused when they are declared: %j %j', (name, options) => {
    expect(() => anthropic(name, options)).toThrow(expect.objectContaining({ code: 'invalid_model' }))
  })
})
