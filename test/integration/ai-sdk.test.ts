// Language models of the AI SDK as Models: the published packages of two providers, under both specifications, over HTTP.
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ModelError } from '../../src/agent/errors.ts'
import type { ModelCallContext, ModelRequest, ModelResponse } from '../../src/agent/model.ts'
import type { ModelDelta } from '../../src/session/watching/deltas.ts'
import { aiSdk } from '../../src/models/index.ts'
import { readableBy, withProvider } from '../../src/jobs/model-call/provider-blocks.ts'
import type { AssistantBlock, Message } from '../../src/session/content.ts'
import { refused, streamed, type Wire, type WireAnswerSpec, WIRES } from '../support/provider-wires.ts'
import { type WireServer, wireServer } from '../support/wire-server.ts'
import type { AiSdkOptions } from '../../src/models/ai-sdk-options.ts'
import type { LanguageModel } from '../../src/models/ai-sdk-types.ts'

const tools = [
  { name: 'find_order', description: 'Finds an order.', input_schema: { type: 'object', properties: { id: { type: 'string' } } } },
]

function asking(content: string, more: Partial<ModelRequest> = {}): ModelRequest {
  return { system: 'Be brief.', messages: [{ role: 'user', content }], tools, sessionId: 's', run: 1, turn: 1, ...more }
}

function callContext(signal = new AbortController().signal, onDelta?: () => void): ModelCallContext & { deltas: ModelDelta[] } {
  const deltas: ModelDelta[] = []
  return {
    signal,
    attempt: 1,
    deltas,
    onDelta(delta) {
      deltas.push(delta)
      onDelta?.()
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

let server: WireServer
beforeAll(async () => {
  server = await wireServer()
})
afterEach(() => server.reset())
afterAll(() => server.close())

const withoutMetadata = (content: AssistantBlock[]) =>
  content.map(({ providerMetadata: _metadata, ...block }) => (block.type === 'tool_use' ? { ...block, id: 'id' } : block))
const callTo = (id: string) => ({ type: 'tool_use', id: 'id', name: 'find_order', input: { id } })

/** The answer as pawl records it before the next request: calls have pawl's own ids, and blocks name their provider. */
function recorded({ content }: ModelResponse, provider: string): AssistantBlock[] {
  let index = 0
  return withProvider(provider, content).map((block) => (block.type === 'tool_use' ? { ...block, id: `t_1_1_${index++}` } : block))
}

describe.each(WIRES)('$name', (wire: Wire) => {
  const model = (options: AiSdkOptions = {}) => aiSdk(wire.model(server.url), options)
  const answers = (spec: WireAnswerSpec) => streamed(wire.chunks(spec))

  it('an AI SDK model streams text, and reports its usage and the model that answered', async () => {
    server.answer(answers({ text: ['Hi ', 'there.'], stop: 'stop', usage: { input: 110, cached: 100, output: 7 } }))
    const ctx = callContext()
    const response = await model().generate(asking('hello'), ctx)
    expect(withoutMetadata(response.content)).toEqual([{ type: 'text', text: 'Hi there.' }])
    expect(response).toMatchObject({
      stopReason: 'end_turn',
      usage: { input_tokens: 10, output_tokens: 7, cache_creation_input_tokens: 0, cache_read_input_tokens: 100 },
      ...(wire.name.includes('Google') ? {} : { model: wire.answers }),
    })
    expect(ctx.deltas).toEqual([
      { type: 'text', index: 0, text: 'Hi ' },
      { type: 'text', index: 0, text: 'there.' },
    ])
    const body = JSON.stringify(server.received[0]?.body)
    expect(body).toContain('Be brief.')
    expect(body).toContain('Finds an order.')
  })

  it('an AI SDK model returns parallel calls with their arguments, in the order in which the model made them', async () => {
    const calls = ['A7', 'B8', 'C9'].map((id) => ({ id: `call_${id}`, name: 'find_order', json: ['{"id":', `"${id}"}`] }))
    server.answer(answers({ text: ['Looking.'], calls, stop: 'stop' }))
    const ctx = callContext()
    const { content, stopReason } = await model().generate(asking('orders'), ctx)
    expect(withoutMetadata(content)).toEqual([{ type: 'text', text: 'Looking.' }, callTo('A7'), callTo('B8'), callTo('C9')])
    expect(stopReason).toBe('tool_use')
    const streamedArguments = ctx.deltas.flatMap((delta) => (delta.type === 'tool_input' ? [delta.partialJson] : [])).join('')
    expect(streamedArguments).toBe('{"id":"A7"}{"id":"B8"}{"id":"C9"}')
  })

  it('an AI SDK model carries a call, its result and the thinking before it into the next request, under pawl’s own id', async () => {
    const thinking = wire.hasThinking ? { thinking: { text: 'An order it is.', signature: 'c2lnbmVk' } } : {}
    const claude = model()
    server.answer(answers({ ...thinking, calls: [{ id: 'call_1', name: 'find_order', json: ['{"id":"A7"}'] }], stop: 'stop' }))
    const first = await claude.generate(asking('order'), callContext())
    if (wire.hasThinking) expect(first.content[0]).toMatchObject({ type: 'thinking', thinking: 'An order it is.' })
    server.answer(answers({ text: ['Found.'], stop: 'stop' }))
    const messages: Message[] = [
      { role: 'user', content: 'order' },
      { role: 'assistant', content: recorded(first, claude.provider ?? '') },
      { role: 'user', content: 'hurry' },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'on its way' }] },
    ]
    const second = await claude.generate(asking('', { messages }), callContext())
    expect(withoutMetadata(second.content)).toEqual([{ type: 'text', text: 'Found.' }])
    const sent = JSON.stringify(server.received[1]?.body)
    expect(sent).toContain('t_1_1_0')
    expect(sent).toContain('on its way')
    expect(sent).not.toContain('call_1"')
    expect(sent.indexOf('on its way')).toBeLessThan(sent.indexOf('hurry'))
    if (wire.hasThinking) expect(sent).toContain('c2lnbmVk')
  })

  it('an AI SDK model sends none of the thinking, ids or metadata to another provider', async () => {
    const thinking = { text: 'An order it is.', signature: 'c2lnbmVk' }
    const call = { id: 'call_1', name: 'find_order', json: ['{"id":"A7"}'] }
    const first = model()
    server.answer(answers({ thinking, text: ['Hm.'], calls: [call], stop: 'stop' }))
    const content = recorded(await first.generate(asking('order'), callContext()), first.provider ?? '')
    const messages: Message[] = [
      { role: 'user', content: 'order' },
      { role: 'assistant', content },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'on its way' }] },
    ]
    expect(readableBy('another', messages)[1]).toEqual({
      role: 'assistant',
      content: [
        { type: 'text', text: 'Hm.' },
        { ...callTo('A7'), id: 't_1_1_0' },
      ],
    })
    for (const other of WIRES) {
      server.answer(streamed(other.chunks({ text: ['ok'], stop: 'stop' })))
      await aiSdk(other.model(server.url)).generate(asking('', { messages: readableBy('another', messages) }), callContext())
    }
    expect(JSON.stringify(server.received.slice(1))).not.toMatch(/c2lnbmVk|An order it is|msg_1|fc_call_1/)
  })

  it('an AI SDK model sends images from users and from results, and the results of failed calls', async () => {
    const image = { type: 'image' as const, source: { type: 'base64' as const, media_type: 'image/png' as const, data: 'iVBORw0KGgo=' } }
    const use = (id: string) => ({ type: 'tool_use' as const, id, name: 'find_order', input: {} })
    const messages: Message[] = [
      { role: 'user', content: [{ type: 'text', text: 'what is this?' }, image] },
      { role: 'assistant', content: [use('t_1'), use('t_2'), use('t_3')] },
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 't_1', content: [{ type: 'text', text: 'a picture' }, image] },
          { type: 'tool_result', tool_use_id: 't_2', content: 'no such order', is_error: true },
          { type: 'tool_result', tool_use_id: 't_3', content: '', is_error: true },
        ],
      },
    ]
    server.answer(answers({ text: ['ok'], stop: 'stop' }))
    await model().generate(asking('', { messages }), callContext())
    const sent = JSON.stringify(server.received[0]?.body)
    expect(sent.split('iVBORw0KGgo=').length - 1).toBe(2)
    for (const text of ['a picture', 'no such order', 'failed']) expect(sent).toContain(text)
  })

  it('an AI SDK model sends the URL of an image only to a provider that loads it', async () => {
    const source = { type: 'url' as const, url: 'https://example.com/cat.png' }
    const messages: Message[] = [
      { role: 'user', content: [{ type: 'image', source }] },
      { role: 'assistant', content: [{ type: 'tool_use', id: 't_1', name: 'find_order', input: {} }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1', content: [{ type: 'text', text: 'see' }] }] },
      { role: 'user', content: [{ type: 'image', source: { type: 'url', url: 'https://example.com/' } }] },
    ]
    const loads = wire.model(server.url)
    const loadsNone = Object.create(loads, { supportedUrls: { value: Promise.resolve({}) } }) as LanguageModel
    for (const one of [loads, loadsNone]) {
      server.answer(answers({ text: ['ok'], stop: 'stop' }))
      await aiSdk(one).generate(asking('', { messages }), callContext())
    }
    const [shown, told] = server.received.map(({ body }) => JSON.stringify(body))
    expect(shown).toContain('https://example.com/cat.png')
    expect(shown).not.toContain('is not shown')
    expect(told).toContain('[An image at https://example.com/cat.png, which is not shown: this model cannot load it.]')
  })

  it.each([
    ['length', 'max_tokens'],
    ['filter', 'refusal'],
    ['stop', 'end_turn'],
  ] as const)('an AI SDK model reads the finish reason %s as %s', async (stop, stopReason) => {
    server.answer(answers({ text: ['So.'], stop }))
    expect((await model().generate(asking('why'), callContext())).stopReason).toBe(stopReason)
  })

  it('an AI SDK model discards an answer that is cut off between any two chunks, and the call can be retried', async () => {
    const spec: WireAnswerSpec = {
      ...(wire.hasThinking && { thinking: { text: 'Hm.', signature: 'c2ln' } }),
      text: ['Look', 'ing.'],
      calls: [{ id: 'call_1', name: 'find_order', json: ['{"id":', '"A7"}'] }],
      stop: 'stop',
      usage: { input: 5, output: 5 },
    }
    const chunks = wire.chunks(spec)
    server.answer(streamed(chunks))
    const whole = await model().generate(asking('order'), callContext())
    for (const end of ['destroy', 'end'] as const) {
      for (let count = 0; count < chunks.length; count++) {
        server.answer(streamed(chunks.slice(0, count), end))
        const outcome = await model()
          .generate(asking('order'), callContext())
          .catch((error: unknown) => error)
        if (outcome instanceof ModelError) {
          expect(outcome).toMatchObject({ retryable: true, code: expect.stringMatching(/^(stream_cut|connection_error)$/) })
        } else {
          // The whole answer had arrived; only the usage or the closing chunk was missing.
          expect(withoutMetadata((outcome as ModelResponse).content)).toEqual(withoutMetadata(whole.content))
          expect((outcome as ModelResponse).stopReason).toBe('tool_use')
          expect(chunks.length - count).toBeLessThanOrEqual(2)
        }
      }
    }
    expect(server.received).toHaveLength(1 + 2 * chunks.length)
  })

  it('an AI SDK model reports a provider’s error in the middle of the answer as retryable', async () => {
    const [first = '', second = ''] = wire.chunks({ text: ['part', 'ly'], stop: 'stop' })
    server.answer(streamed([first, second, wire.trouble('We are sorry.')]))
    const error = await failureOf(model().generate(asking('hi'), callContext()))
    expect(error).toMatchObject({ retryable: true, phase: 'stream', code: expect.stringMatching(/^(api_error|overloaded_error)$/) })
    expect(error.message).toContain('We are sorry.')
  })

  it('an AI SDK model reports a malformed stream as retryable', async () => {
    const [first = ''] = wire.chunks({ text: ['part'], stop: 'stop' })
    server.answer(streamed([first, 'data: {"candid\n\n']))
    expect(await failureOf(model().generate(asking('hi'), callContext()))).toMatchObject({ code: 'stream_cut', retryable: true })
  })

  it('an AI SDK model times out after too long a silence, before the answer and in the middle of it', async () => {
    const impatient = model({ timeout: '150ms' })
    server.answer(() => undefined)
    expect(await failureOf(impatient.generate(asking('hi'), callContext()))).toMatchObject({ code: 'timeout', retryable: true })
    server.answer(streamed(wire.chunks({ text: ['part', 'ly'], stop: 'stop' }).slice(0, -2), 'open'))
    expect(await failureOf(impatient.generate(asking('hi'), callContext()))).toMatchObject({ code: 'timeout', retryable: true })
  })

  it('an AI SDK model ends the call on an abort, and throws its reason unchanged', async () => {
    const reason = new Error('interrupted by a person')
    const controller = new AbortController()
    const chunks = wire.chunks({ text: ['part', 'ly'], stop: 'stop' })
    server.answer(streamed(chunks.slice(0, -2), 'open'))
    const ctx = callContext(controller.signal, () => controller.abort(reason))
    await expect(model().generate(asking('hello'), ctx)).rejects.toBe(reason)
    await expect(model().generate(asking('hello'), callContext(AbortSignal.abort(reason)))).rejects.toBe(reason)
    expect(server.received).toHaveLength(1)
  })

  it('an AI SDK model makes one request on a 429, and reports it as retryable after the time in retry-after', async () => {
    server.answer(refused(wire, 429, 'rate_limit_exceeded', 'Slow down.', { 'retry-after': '3' }))
    const error = await failureOf(model().generate(asking('hello'), callContext()))
    expect(error).toMatchObject({ code: 'rate_limit_error', status: 429, retryable: true, retryAfterMs: 3000 })
    expect(error.message).toContain('Slow down.')
    expect(server.received).toHaveLength(1)
  })

  it.each([
    [400, 'invalid_request_error', false, false],
    [401, 'authentication_error', false, true],
    [403, 'permission_error', false, true],
    [404, 'not_found_error', false, true],
    [408, 'timeout_error', true, true],
    [409, 'conflict_error', true, true],
    [413, 'context_overflow', false, false],
    [418, 'http_418', false, false],
    [500, 'api_error', true, true],
    [502, 'http_502', true, true],
    [503, 'overloaded_error', true, true],
  ])('an AI SDK model reports %i as %s; retryable: %s; a fallback may answer: %s', async (status, code, retryable, fallback) => {
    server.answer(refused(wire, status, 'some_code', 'No.'))
    const error = await failureOf(model().generate(asking('hello'), callContext()))
    expect(error).toMatchObject({ code, status, retryable, fallback })
    expect(server.received).toHaveLength(1)
  })

  it('an AI SDK model tells a conversation that is too long from other bad requests', async () => {
    server.answer(refused(wire, 400, 'context_length_exceeded', 'Your input exceeds the context window of this model.'))
    const error = await failureOf(model().generate(asking('hello'), callContext()))
    expect(error).toMatchObject({ code: 'context_overflow', retryable: false, fallback: false })
  })

  it('an AI SDK model tells an exhausted quota from a rate limit', async () => {
    server.answer(refused(wire, 429, 'insufficient_quota', 'You exceeded your current quota (insufficient_quota).'))
    expect(await failureOf(model().generate(asking('hello'), callContext()))).toMatchObject({
      code: 'billing_error',
      retryable: false,
      fallback: true,
    })
  })

  it('an AI SDK model reports an unreachable server as retryable', async () => {
    const gone = await wireServer()
    await gone.close()
    const error = await failureOf(aiSdk(wire.model(gone.url)).generate(asking('hello'), callContext()))
    expect(error).toMatchObject({ code: 'connection_error', retryable: true })
    expect(error.message).toContain('ECONNREFUSED')
  })

  it('an AI SDK model counts missing usage as zero', async () => {
    server.answer(answers({ text: ['ok'], stop: 'stop' }))
    const { usage } = await model().generate(asking('hi'), callContext())
    expect(usage).toEqual({ input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 })
  })

  it.runIf(wire.argumentsAreText)('an AI SDK model passes on arguments that are not JSON as plain text', async () => {
    const calls = [
      { id: 'call_1', name: 'find_order', json: ['{"id": "A', '7", }'] },
      { id: 'call_2', name: 'find_order', json: ['{"id":"B8"}'] },
      { id: 'call_3', name: 'find_order', json: [] },
    ]
    server.answer(answers({ calls, stop: 'stop' }))
    const { content, stopReason } = await model().generate(asking('hi'), callContext())
    expect(stopReason).toBe('tool_use')
    expect(content.map((block) => block.type === 'tool_use' && block.input)).toEqual(['{"id": "A7", }', { id: 'B8' }, {}])
  })

  it('an AI SDK model sends arguments that are not JSON back in a form that the provider accepts', async () => {
    server.answer(answers({ text: ['ok'], stop: 'stop' }))
    const messages: Message[] = [
      { role: 'user', content: 'order' },
      { role: 'assistant', content: [{ type: 'tool_use', id: 't_1_1_0', name: 'find_order', input: '{"id": "A7", }' }] },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'not JSON', is_error: true }] },
    ]
    await model().generate(asking('', { messages }), callContext())
    expect(JSON.stringify(server.received[0]?.body)).toContain('INVALID_JSON')
  })

  it('an AI SDK model never mistakes a call that was cut off for one without arguments', async () => {
    server.answer(answers({ calls: [{ id: 'call_1', name: 'find_order', json: [] }], stop: 'length' }))
    const { content, stopReason } = await model().generate(asking('hi'), callContext())
    expect(stopReason).toBe('max_tokens')
    if (wire.argumentsAreText) expect(content.map((block) => block.type === 'tool_use' && block.input)).toEqual([''])
  })

  it('an AI SDK model passes on settings, and sends the same body for the same request', async () => {
    const set = model({ maxTokens: 500, settings: { temperature: 0.3, stopSequences: ['END'], headers: { 'x-team': 'support' } } })
    for (let time = 0; time < 2; time++) {
      server.answer(answers({ text: ['ok'], stop: 'stop' }))
      await set.generate(asking('hi'), callContext())
    }
    const [first, second] = server.received
    expect(second?.body).toEqual(first?.body)
    expect(JSON.stringify(first?.body)).toContain('500')
    expect(first?.headers['x-team']).toBe('support')
    server.answer(answers({ text: ['ok'], stop: 'stop' }))
    await set.generate(asking('hi', { maxTokens: 77 }), callContext())
    expect(JSON.stringify(server.received[2]?.body)).toContain('77')
  })
})

const wiresOf = (provider: string) => WIRES.filter(({ name }) => name.startsWith(provider))

describe.each(wiresOf("OpenAI's Responses"))('$name', (wire) => {
  it('an AI SDK model stores nothing at OpenAI for later requests to refer to, unless it is told to', async () => {
    for (const providerOptions of [{}, { openai: { store: true } }, { openai: { reasoningEffort: 'low' } }]) {
      server.answer(streamed(wire.chunks({ text: ['ok'], stop: 'stop' })))
      await aiSdk(wire.model(server.url), { settings: { providerOptions } }).generate(asking('hi'), callContext())
    }
    expect(server.received.map(({ body }) => body.store)).toEqual([false, true, false])
    expect(server.received[0]?.body.include).toContain('reasoning.encrypted_content')
    expect(server.received[2]?.body.reasoning).toMatchObject({ effort: 'low' })
  })
})

describe.each(wiresOf('Google'))('$name', (wire) => {
  it('an AI SDK model reads the time to wait from the details of the error', async () => {
    server.answer((res) => {
      const details = [{ '@type': 'type.googleapis.com/google.rpc.RetryInfo', retryDelay: '36.5s' }]
      res.writeHead(429, { 'content-type': 'application/json' })
      res.end(JSON.stringify({ error: { code: 429, message: 'Quota exceeded.', status: 'RESOURCE_EXHAUSTED', details } }))
    })
    const error = await failureOf(aiSdk(wire.model(server.url)).generate(asking('hi'), callContext()))
    expect(error).toMatchObject({ code: 'rate_limit_error', retryAfterMs: 36_500 })
  })

  it('an AI SDK model recognises a wrong key, which Google reports as a bad request', async () => {
    server.answer(refused(wire, 400, 'INVALID_ARGUMENT', 'API key not valid. Please pass a valid API key.'))
    const error = await failureOf(aiSdk(wire.model(server.url)).generate(asking('hi'), callContext()))
    expect(error).toMatchObject({ code: 'authentication_error', retryable: false, fallback: true })
  })
})

describe.each([
  ...wiresOf("OpenAI's Responses").map((wire) => ({ ...wire, says: 'The encrypted content for item rs_1 could not be verified.' })),
  ...wiresOf('Google').map((wire) => ({ ...wire, says: 'Thought signature is not valid.' })),
])('$name', (wire) => {
  it('an AI SDK model repeats the call once without old thinking and metadata if the provider rejects them', async () => {
    const model = aiSdk(wire.model(server.url))
    const call = { id: 'call_1', name: 'find_order', json: ['{"id":"A7"}'] }
    server.answer(streamed(wire.chunks({ thinking: { text: 'Hm.', signature: 'c2ln' }, calls: [call], stop: 'stop' })))
    const first = await model.generate(asking('order'), callContext())
    const messages: Message[] = [
      { role: 'user', content: 'order' },
      { role: 'assistant', content: recorded(first, model.provider ?? '') },
      { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't_1_1_0', content: 'on its way' }] },
    ]
    server.answer(refused(wire, 400, 'invalid_encrypted_content', wire.says), streamed(wire.chunks({ text: ['ok'], stop: 'stop' })))
    const { content } = await model.generate(asking('', { messages }), callContext())
    expect(withoutMetadata(content)).toEqual([{ type: 'text', text: 'ok' }])
    expect(server.received.map(({ body }) => JSON.stringify(body).includes('c2ln'))).toEqual([false, true, false])
    // If the provider refuses that too, it has refused the request itself.
    server.answer(refused(wire, 400, 'x', wire.says), refused(wire, 400, 'x', wire.says))
    expect(await failureOf(model.generate(asking('', { messages }), callContext()))).toMatchObject({ code: 'invalid_request_error' })
  })
})
