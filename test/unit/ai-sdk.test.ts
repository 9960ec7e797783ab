// A model of the AI SDK may do anything, including what its provider's package never does.
import { afterEach, describe, expect, it, vi } from 'vitest'
import { ModelError } from '../../src/agent/errors.ts'
import type { ModelRequest } from '../../src/agent/model.ts'
import type { ModelDelta } from '../../src/session/watching/deltas.ts'
import { checkResponse } from '../../src/jobs/model-call/check-response.ts'
import { aiSdk } from '../../src/models/index.ts'
import type { AiSdkOptions } from '../../src/models/ai-sdk-options.ts'
import type { LanguageModel, LanguageModelCall } from '../../src/models/ai-sdk-types.ts'

const request: ModelRequest = { system: '', messages: [{ role: 'user', content: 'hi' }], tools: [], sessionId: 's', run: 1, turn: 1 }

/** A model whose stream has these parts. */
function saying(
  parts: readonly unknown[],
  { end = 'close' }: { end?: 'close' | 'never' } = {},
): LanguageModel & { calls: LanguageModelCall[] } {
  const calls: LanguageModelCall[] = []
  return {
    specificationVersion: 'v4',
    provider: 'house',
    modelId: 'house-1',
    supportedUrls: {},
    calls,
    async doStream(call) {
      calls.push(call)
      const stream = new ReadableStream<unknown>({
        start(controller) {
          for (const part of parts) controller.enqueue(part)
          if (end === 'close') controller.close()
        },
      })
      return { stream }
    },
  }
}

function ask(
  model: LanguageModel,
  options: AiSdkOptions = {},
  signal = new AbortController().signal,
  onDelta: (delta: ModelDelta) => void = () => undefined,
) {
  return aiSdk(model, options).generate(request, { signal, attempt: 1, onDelta })
}

const failureOf = (promise: Promise<unknown>): Promise<ModelError> =>
  promise.then(
    () => expect.unreachable('it answered'),
    (error: unknown) => {
      expect(error).toBeInstanceOf(ModelError)
      return error as ModelError
    },
  )

const finish = (unified = 'stop', raw: string | undefined = unified, usage?: unknown) => ({
  type: 'finish',
  finishReason: { unified, raw },
  usage,
})
const text = (id: string, ...deltas: string[]) => [
  { type: 'text-start', id },
  ...deltas.map((delta) => ({ type: 'text-delta', id, delta })),
  { type: 'text-end', id },
]
const input = (id: string, ...deltas: string[]) => [
  { type: 'tool-input-start', id, toolName: 'find_order' },
  ...deltas.map((delta) => ({ type: 'tool-input-delta', id, delta })),
  { type: 'tool-input-end', id },
]
const call = (toolCallId: unknown, json: unknown, more: object = {}) => ({
  type: 'tool-call',
  toolCallId,
  toolName: 'find_order',
  input: json,
  ...more,
})

afterEach(() => void vi.useRealTimers())

describe('the stream of a model of the AI SDK', () => {
  it('an AI SDK stream whose call and pieces have different ids has one call', async () => {
    const deltas: ModelDelta[] = []
    const parts = [
      ...input('a', '{"id":', '"A7"}'),
      ...input('b', '{"id":"B8"}'),
      call('b', '{"id":"B8"}'),
      call('x', '{"id":"A7"}'),
      finish('tool-calls'),
    ]
    const { content, stopReason } = await ask(saying(parts), {}, undefined, (delta) => deltas.push(delta))
    expect(stopReason).toBe('tool_use')
    expect(content).toEqual([
      { type: 'tool_use', id: 'x', name: 'find_order', input: { id: 'A7' } },
      { type: 'tool_use', id: 'b', name: 'find_order', input: { id: 'B8' } },
    ])
    expect(deltas.map((delta) => delta.type === 'tool_input' && [delta.index, delta.name ?? delta.partialJson])).toEqual([
      [0, 'find_order'],
      [0, '{"id":'],
      [0, '"A7"}'],
      [1, 'find_order'],
      [1, '{"id":"B8"}'],
    ])
  })

  it('an AI SDK stream may use an id twice, or none at all', async () => {
    const parts = [
      ...input('a', '{"id":1}'),
      call('a', '{"id":1}'),
      ...input('a', '{"id":2}'),
      call('a', '{"id":2}'),
      call(undefined, '{"id":3}'),
    ]
    const { content } = await ask(saying([...parts, finish('tool-calls')]))
    expect(content.map((block) => block.type === 'tool_use' && [block.id, block.input])).toEqual([
      ['a', { id: 1 }],
      ['a', { id: 2 }],
      ['', { id: 3 }],
    ])
  })

  it('an AI SDK stream’s input that is not JSON, and pieces of a call that was never completed, become text', async () => {
    const parts = [call('a', '{"id": "A7", }'), call('b', ''), call('c', { id: 'C9' }), ...input('d', '{"id":"D1"}')]
    const { content } = await ask(saying([...parts, finish('tool-calls')]))
    expect(content.map((block) => block.type === 'tool_use' && block.input)).toEqual(['{"id": "A7", }', {}, { id: 'C9' }, '{"id":"D1"}'])
    const cut = await ask(saying([call('a', '{"id":1}'), call('b', ''), finish('length')]))
    expect(cut.content.map((block) => block.type === 'tool_use' && block.input)).toEqual([{ id: 1 }, ''])
  })

  it('empty text, empty thinking and parts that are not parts of an AI SDK stream are left out', async () => {
    const parts = [
      null,
      'part',
      { type: 'stream-start', warnings: [] },
      ...text('0', ''),
      { type: 'reasoning-start', id: 'r' },
      { type: 'text-delta', id: 'never begun', delta: 'ok' },
    ]
    expect((await ask(saying([...parts, finish()]))).content).toEqual([{ type: 'text', text: 'ok' }])
  })

  it('calls and results of a tool that the provider runs, and sources, are kept as their provider sent them', async () => {
    const metadata = { house: { itemId: 'ws_1' } }
    const result = { action: { type: 'search', query: 'rain' }, sources: [{ type: 'url', url: 'https://example.com/a' }] }
    const parts = [
      { type: 'tool-input-start', id: 'w', toolName: 'web_search', providerExecuted: true },
      { type: 'tool-input-delta', id: 'w', delta: '{"query"' },
      { type: 'tool-input-end', id: 'w' },
      call('w', '{"query":"rain"}', { toolName: 'web_search', providerExecuted: true, providerMetadata: metadata }),
      { type: 'tool-result', toolCallId: 'w', toolName: 'web_search', result: {}, preliminary: true },
      { type: 'tool-result', toolCallId: 'w', toolName: 'web_search', result },
      { type: 'source', sourceType: 'url', id: 's', url: 'https://example.com/a', title: 'A' },
      ...text('0', 'It rains.'),
    ]
    const call_ = { toolCallId: 'w', toolName: 'web_search' }
    expect((await ask(saying([...parts, finish()]))).content).toEqual([
      {
        ...{ type: 'provider', part: 'call', id: 'w', name: 'web_search', input: { query: 'rain' } },
        block: { ...call_, input: { query: 'rain' }, providerExecuted: true, providerMetadata: metadata },
      },
      {
        ...{ type: 'provider', part: 'result', id: 'w', name: 'web_search', sources: [{ type: 'url', url: 'https://example.com/a' }] },
        block: { ...call_, result },
      },
      {
        ...{ type: 'provider', part: 'source', id: 's', name: 'A', sources: [{ type: 'url', url: 'https://example.com/a', title: 'A' }] },
        block: { sourceType: 'url', id: 's', url: 'https://example.com/a', title: 'A' },
      },
      { type: 'text', text: 'It rains.' },
    ])
  })

  it.each([
    [{ type: 'file', mediaType: 'image/png', data: 'aGk=' }, 'file'],
    [{ type: 'tool-approval-request', approvalId: 'a', toolCallId: 'w' }, 'tool-approval-request'],
    [{ type: 'custom', kind: 'house.thing' }, 'house.thing'],
    [{ type: 'quite-new' }, 'quite-new'],
  ])('a part %j of an AI SDK stream, which pawl does not know, becomes a block that is refused by name', async (part, name) => {
    expect((await ask(saying([...text('0', 'ok'), part, finish()]))).content).toEqual([{ type: 'text', text: 'ok' }, { type: name }])
  })

  it('an AI SDK stream keeps the metadata of all parts of a block, and thinking that has only metadata', async () => {
    const of = (values: object) => ({ providerMetadata: { house: values } })
    const parts = [
      { type: 'reasoning-start', id: 'r', ...of({ itemId: 'rs_1' }) },
      { type: 'reasoning-end', id: 'r', ...of({ encrypted: 'c2ln' }) },
      { type: 'text-start', id: 't', providerMetadata: 'nonsense' },
      { type: 'text-delta', id: 't', delta: 'Hi.', ...of({ phase: 1 }) },
      call('a', '{}', of({ signature: 's' })),
    ]
    expect((await ask(saying([...parts, finish('tool-calls')]))).content).toEqual([
      { type: 'thinking', thinking: '', signature: '', ...of({ itemId: 'rs_1', encrypted: 'c2ln' }) },
      { type: 'text', text: 'Hi.', ...of({ phase: 1 }) },
      { type: 'tool_use', id: 'a', name: 'find_order', input: {}, ...of({ signature: 's' }) },
    ])
  })

  it.each([
    ['stop', 'end_turn', 'end_turn'],
    ['stop', 'stop_sequence', 'stop_sequence'],
    ['other', 'pause_turn', 'pause_turn'],
    ['content-filter', 'refusal', 'refusal'],
    ['content-filter', 'SAFETY', 'refusal'],
    ['length', 'model_context_window_exceeded', 'model_context_window_exceeded'],
    ['length', 'MAX_TOKENS', 'max_tokens'],
    ['other', 'quite_new', 'end_turn'],
    ['quite new', undefined, 'end_turn'],
  ])('an AI SDK stream that finishes with %s (%s) has the stop reason %s', async (unified, raw, stopReason) => {
    expect((await ask(saying([...text('0', 'So.'), { ...finish(unified), finishReason: { unified, raw } }]))).stopReason).toBe(stopReason)
  })

  it.each([
    ['nothing', []],
    ['text', text('0', 'So.')],
    ['a finish without a reason', [...text('0', 'So.'), { ...finish(), finishReason: { unified: 'other', raw: undefined } }]],
    ['a finish that says nothing', [...text('0', 'So.'), { type: 'finish' }]],
    ['an interruption', [...text('0', 'So.'), finish('interrupted', 'CONTINUATION')]],
  ])('an AI SDK stream that ends after %s counts as cut off', async (_, parts) => {
    expect(await failureOf(ask(saying(parts)))).toMatchObject({ code: 'stream_cut', retryable: true, phase: 'stream' })
  })

  it('an AI SDK stream that ends because the provider failed is retried', async () => {
    const error = await failureOf(ask(saying([...text('0', 'So.'), finish('error', 'MALFORMED_FUNCTION_CALL')])))
    expect(error).toMatchObject({ code: 'api_error', retryable: true, phase: 'stream' })
    expect(error.message).toContain('MALFORMED_FUNCTION_CALL')
  })

  it.each([
    ['text', 'Something broke.', 'api_error', true],
    ['an error', new TypeError('terminated'), 'stream_cut', true],
    ['a frame', { type: 'error', error: { type: 'server_error', message: 'Sorry.' } }, 'api_error', true],
    ['a rate limit', { type: 'tokens', code: 'rate_limit_exceeded', message: 'Slow down.' }, 'rate_limit_error', true],
    ['a status', { code: 503, status: 'UNAVAILABLE', message: 'Sorry.' }, 'overloaded_error', true],
    ['Anthropic’s word', { type: 'overloaded_error', message: 'Overloaded' }, 'overloaded_error', true],
    ['a bad request', { type: 'invalid_request_error', message: 'No.' }, 'invalid_request_error', false],
    ['a quota', { type: 'insufficient_quota', code: 'insufficient_quota', message: 'No.' }, 'billing_error', false],
    ['nothing', undefined, 'api_error', true],
    ['itself', circular(), 'api_error', true],
  ])('an AI SDK stream that reports %s midway fails', async (_, error, code, retryable) => {
    expect(await failureOf(ask(saying([...text('0', 'So.'), { type: 'error', error }, finish()])))).toMatchObject({ code, retryable })
  })

  it.each([
    ['nothing', undefined, [0, 0, 0, 0]],
    ['null', null, [0, 0, 0, 0]],
    ['totals', { inputTokens: { total: 10, cacheRead: 4, cacheWrite: 1 }, outputTokens: { total: 3 } }, [5, 3, 1, 4]],
    ['parts', { inputTokens: { total: 99, noCache: 10, cacheRead: 4 }, outputTokens: { total: 3 } }, [10, 3, 0, 4]],
    ['no numbers', { inputTokens: { total: Number.NaN, cacheRead: 4 }, outputTokens: { total: '3' } }, [0, 0, 0, 4]],
    ['negative numbers', { inputTokens: { total: 2, cacheRead: 4 }, outputTokens: { total: -3 } }, [0, 0, 0, 4]],
    ['infinite numbers', { inputTokens: { total: Number.POSITIVE_INFINITY }, outputTokens: { total: 1e300 } }, [0, 0, 0, 0]],
    ['another form', { inputTokens: 3, promptTokens: 4 }, [0, 0, 0, 0]],
  ])('an AI SDK stream that reports a usage of %s is recorded with a valid usage', async (_, usage, expected) => {
    const response = await ask(saying([...text('0', 'ok'), finish('stop', 'stop', usage)]))
    const { usage: counted, content } = checkResponse(response, { name: 'house-1' })
    expect(content).toEqual([{ type: 'text', text: 'ok' }])
    expect([counted.input_tokens, counted.output_tokens, counted.cache_creation_input_tokens, counted.cache_read_input_tokens]).toEqual(
      expected,
    )
  })

  it('an AI SDK stream that never ends and ignores its signal is ended by the timeout or by the caller’s abort', async () => {
    const deaf = () => saying(text('0', 'So.'), { end: 'never' })
    expect(await failureOf(ask(deaf(), { timeout: '20ms' }))).toMatchObject({ code: 'timeout', retryable: true, phase: 'stream' })
    const mute: LanguageModel = { ...deaf(), doStream: () => new Promise(() => undefined) }
    expect(await failureOf(ask(mute, { timeout: '20ms' }))).toMatchObject({ code: 'timeout', retryable: true, phase: undefined })
    const reason = new Error('interrupted by a person')
    const controller = new AbortController()
    await expect(ask(deaf(), {}, controller.signal, () => controller.abort(reason))).rejects.toBe(reason)
  })

  it('an AI SDK stream that stays open after the end of the answer still returns the answer', async () => {
    vi.useFakeTimers()
    const asked = ask(saying([...text('0', 'ok'), finish()], { end: 'never' }))
    await vi.advanceTimersByTimeAsync(2_000)
    vi.useRealTimers()
    expect((await asked).content).toEqual([{ type: 'text', text: 'ok' }])
  })
})

describe('a model of the AI SDK', () => {
  it('a model of the AI SDK has the name, the provider, the account and the price that it is given, or its own', () => {
    const model = saying([])
    expect(aiSdk(model)).toMatchObject({ name: 'house-1', provider: 'house', account: 'house-1' })
    expect(aiSdk(model)).not.toHaveProperty('price')
    const price = { input: 1, output: 2 }
    const given = { name: 'house', provider: 'openai', account: 'team', price }
    expect(aiSdk(model, given)).toMatchObject(given)
  })

  it.each([
    ['AI_LoadAPIKeyError', 'no_api_key', false, true],
    ['AI_NoSuchModelError', 'not_found_error', false, true],
    ['AI_UnsupportedFunctionalityError', 'unsupported', false, true],
    ['AI_InvalidPromptError', 'invalid_request_error', false, false],
    ['SomeError', 'model_call_failed', true, true],
  ])('a model of the AI SDK that throws %s fails with %s', async (name, code, retryable, fallback) => {
    const thrown = Object.assign(new Error('It did not work.'), { name })
    const model: LanguageModel = {
      ...saying([]),
      doStream() {
        throw thrown
      },
    }
    const error = await failureOf(ask(model))
    expect(error).toMatchObject({ code, retryable, fallback, cause: thrown })
    expect(error.message).toContain('house-1: It did not work.')
  })

  it.each<[string, unknown, object, string]>([
    ['a name', 'openai/gpt-5.5', {}, 'must be a language model'],
    ['nothing', undefined, {}, 'must be a language model'],
    ['an older specification', { ...saying([]), specificationVersion: 'v2' }, {}, 'AI SDK 6'],
    ['no tokens', saying([]), { maxTokens: 0 }, 'maxTokens'],
    ['a negative timeout', saying([]), { timeout: -1 }, 'timeout'],
    ['an empty name', saying([]), { name: '' }, 'name'],
    ['half a price', saying([]), { price: { input: 1 } }, 'price'],
    ['a negative price', saying([]), { price: { input: 1, output: -1 } }, 'price'],
    ['settings that are pawl’s', saying([]), { settings: { maxOutputTokens: 5 } }, 'There is no option settings.maxOutputTokens'],
    ['a setting of another type', saying([]), { settings: { temperature: 'hot' } }, '`settings.temperature` must be a number'],
    [
      'a setting of another specification',
      { ...saying([]), specificationVersion: 'v3' },
      { settings: { reasoning: 'low' } },
      'specification v4',
    ],
    ['an unknown option', saying([]), { maxToken: 5 }, 'did you mean maxTokens?'],
  ])('a model of the AI SDK is refused when it is declared with %s', (_, model, options, says) => {
    expect(() => aiSdk(model as LanguageModel, options)).toThrow(
      expect.objectContaining({ code: 'invalid_model', message: expect.stringContaining(says) }),
    )
  })
})

function circular(): object {
  const error: { error?: object } = {}
  error.error = error
  return error
}
