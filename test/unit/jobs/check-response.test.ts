// A model's answer before it becomes history: what is recorded instead of numbers and names that cannot be stored.
import { describe, expect, it } from 'vitest'
import { checkResponse, cutCall } from '../../../src/jobs/model-call/check-response.ts'
import type { ModelResponse } from '../../../src/agent/model.ts'
import type { ModelPrice } from '../../../src/session/spending/model-price.ts'

const checked = (more: object, name: unknown = 'm') =>
  checkResponse({ content: [{ type: 'text', text: 'hi' }], stopReason: 'end_turn', ...more } as ModelResponse, { name: name as string })

const NONE = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }

describe('usage', () => {
  it('a Model may report only the tokens that its provider counts, or none, without a cast', () => {
    const response: ModelResponse = { content: [], stopReason: 'end_turn', usage: { input_tokens: 3, output_tokens: null } }
    expect(checkResponse(response, { name: 'm' }).usage).toEqual({ ...NONE, input_tokens: 3 })
    expect(checkResponse({ content: [], stopReason: 'end_turn' } satisfies ModelResponse, { name: 'm' }).usage).toEqual(NONE)
  })

  it('usage may be an estimate, and may be left out', () => {
    expect(checked({ usage: { input_tokens: 1.5, output_tokens: 7, cache_read_input_tokens: null } })).toMatchObject({
      usage: { ...NONE, input_tokens: 2, output_tokens: 7 },
      notes: [],
    })
    for (const usage of [undefined, null, {}]) expect(checked({ usage })).toMatchObject({ usage: NONE, notes: [] })
  })

  it.each([Infinity, -1, NaN, 1e300, '12', true, {}, 12n])('usage of %s tokens counts as none, and is noted', (tokens) => {
    const { usage, notes } = checked({ usage: { output_tokens: tokens } })
    expect(usage).toEqual(NONE)
    expect(notes).toEqual([expect.stringContaining('as output_tokens')])
  })
})

describe('the name of a model', () => {
  it('the name of a model is the one that came with the answer, or else the Model’s own', () => {
    expect(checked({ model: 'm-2026' })).toMatchObject({ model: 'm-2026', notes: [] })
    expect(checked({})).toMatchObject({ model: 'm', notes: [] })
    expect(checked({ model: null })).toMatchObject({ model: 'm', notes: [] })
  })

  it.each([5, '', 'a\0b', '\ud800', 'x'.repeat(201), {}, Symbol('m')])(
    'the name of a model that is not valid (%s) is ignored, and noted',
    (model) => {
      expect(checked({ model })).toMatchObject({ model: 'm', notes: [expect.stringContaining('not a valid name')] })
      expect(checked({}, model)).toMatchObject({ model: 'unknown', notes: [expect.stringContaining('Give the Model a `name`')] })
      expect(checked({ model }, model).notes).toHaveLength(2)
    },
  )

  it('the name of a model may be missing everywhere', () => {
    expect(checked({}, null)).toMatchObject({ model: 'unknown', notes: [expect.stringContaining('name is null')] })
  })
})

const CALL = { type: 'tool_use', id: 'x', name: 'look', input: {} }

it('the calls of a refused answer are dropped', () => {
  const content = [{ type: 'text', text: 'Well' }, CALL]
  expect(checked({ stopReason: 'refusal', content }).content).toEqual([{ type: 'text', text: 'Well' }])
})

it('the arguments of a call that are nested too deep become a text, so that the call gets an error result', () => {
  for (const levels of [2_000, 8_000]) {
    const input = JSON.parse(`{"text":${'['.repeat(levels)}${']'.repeat(levels)}}`) as object
    const { content } = checked({ stopReason: 'tool_use', content: [{ ...CALL, input }] })
    expect(content).toEqual([{ ...CALL, input: 'They are nested deeper than 500 levels, and were not recorded.' }])
  }
})

it('an answer that is not JSON fails at once, because another attempt would fail in the same way', () => {
  const block: Record<string, unknown> = { type: 'text', text: 'hi' }
  block.self = block
  expect(() => checked({ content: [block] })).toThrow(expect.objectContaining({ code: 'invalid_response', retryable: false }))
})

it('an answer that announces calls but contains none is requested again', () => {
  const refusal = expect.objectContaining({ code: 'calls_missing', retryable: true, fallback: true })
  expect(() => checked({ stopReason: 'tool_use' })).toThrow(refusal)
  expect(() => checked({ stopReason: 'tool_use', content: [] })).toThrow(refusal)
})

it.each([
  ['max_tokens', [CALL, CALL], 1],
  ['model_context_window_exceeded', [CALL], 0],
  ['max_tokens', [CALL, { type: 'text', text: 'and' }], undefined],
  ['tool_use', [CALL], undefined],
])('an answer that stops with %s may be cut off in its last call', (stopReason, content, index) => {
  expect(cutCall(checked({ stopReason, content }))).toBe(index)
})

it('an answer that the context has no room for counts as an overflow', () => {
  const check = () =>
    checked({ stopReason: 'model_context_window_exceeded', content: [{ type: 'thinking', thinking: 'hm', signature: 's' }] })
  expect(check).toThrow(expect.objectContaining({ code: 'context_overflow', retryable: false, fallback: false }))
})

it.each([
  ['no answer', undefined],
  ['no blocks', { content: 'hi' }],
  ['a block without a type', { content: [{ song: 1 }] }],
  ['a block of the provider without its own block', { content: [{ type: 'provider', part: 'call', id: 'x', name: 'web_search' }] }],
  ['a block of the provider that is no part', { content: [{ type: 'provider', part: 'song', id: 'x', name: 'web_search', block: {} }] }],
  ['a call without a name', { content: [{ type: 'tool_use', id: 'x', input: {} }] }],
  ['an unknown stop reason', { stopReason: 'tired' }],
  ['too much', { content: [{ type: 'text', text: 'x'.repeat(1_600_000) }] }],
])('%s fails the call', (_, more) => {
  const check = () => (more ? checked(more) : checkResponse(undefined as unknown as ModelResponse, { name: 'm' }))
  expect(check).toThrow(expect.objectContaining({ name: 'ModelError', code: 'invalid_response', retryable: false, fallback: true }))
})

it('a block of an unknown type fails the call, and is named', () => {
  const refusal = {
    name: 'ModelError',
    code: 'unknown_block',
    retryable: false,
    fallback: true,
    message: expect.stringContaining('"song"'),
  }
  expect(() => checked({ content: [{ type: 'song' }] })).toThrow(expect.objectContaining(refusal))
})

it('sources that cannot be shown are left out', () => {
  const url = { type: 'url', url: 'https://example.com', title: 'A' }
  const sources = [{ type: 'url', url: 'javascript:alert(1)' }, url, null, { type: 'document', title: 1 }]
  const { content } = checked({
    content: [
      { type: 'text', text: 'a', sources },
      { type: 'text', text: 'b', sources: 'none' },
    ],
  })
  expect(content).toEqual([
    { type: 'text', text: 'a', sources: [url] },
    { type: 'text', text: 'b' },
  ])
})

it('web searches are counted if there are any', () => {
  expect(checked({ usage: { web_search_requests: 2 } }).usage.web_search_requests).toBe(2)
  expect(checked({ usage: { web_search_requests: 0 } }).usage).not.toHaveProperty('web_search_requests')
  expect(checked({ usage: { web_search_requests: -1 } })).toMatchObject({
    usage: expect.not.objectContaining({ web_search_requests: expect.anything() }),
  })
})

describe('the price that a Model declares', () => {
  const priced = (price: unknown) =>
    checkResponse({ content: [], stopReason: 'end_turn', usage: NONE } as ModelResponse, { name: 'm', price: price as ModelPrice })

  it('the price that a Model declares is recorded with the answer', () => {
    expect(priced({ input: 1, output: 2, cacheRead: 0, other: 5 })).toMatchObject({
      price: { input: 1, output: 2, cacheRead: 0 },
      notes: [],
    })
    expect(priced({ input: 1, output: 2, other: 5 }).price).toEqual({ input: 1, output: 2 })
    expect(priced(undefined)).not.toHaveProperty('price')
  })

  it.each([null, 3, {}, { input: 1 }, { input: -1, output: 1 }, { input: NaN, output: 1 }, { input: 1, output: 1, cacheRead: '1' }])(
    'an invalid price of a Model (%j) is left out, and noted',
    (price) => {
      expect(priced(price)).not.toHaveProperty('price')
      expect(priced(price).notes).toEqual([expect.stringContaining('not a price')])
    },
  )
})

it('metadata of a block that is not an object is left out', () => {
  const block = (providerMetadata: unknown) => ({ type: 'text', text: 'hi', providerMetadata })
  const content = [block({ openai: { itemId: 'x' } }), block('x'), block(null), block([1])]
  expect(checked({ content }).content).toEqual([block({ openai: { itemId: 'x' } }), ...Array(3).fill({ type: 'text', text: 'hi' })])
})
