// What `anthropic` refuses when it is declared.
import { anthropic } from 'pawl/models'
import { expect, it } from 'vitest'
import type { AnthropicOptions } from '../../src/models/anthropic-options.ts'

const price = { input: 1, output: 2 }

it.each<[string, unknown, string]>([
  ['an effort that there is not', { effort: 'mega' }, "`effort` must be 'low', 'medium', 'high', 'xhigh' or 'max', not \"mega\"."],
  ['text for thinking', { thinking: 'on' }, "`thinking` must be an object such as { type: 'adaptive' }"],
  ['thinking without a type', { thinking: { budget_tokens: 5 } }, '`thinking` must be'],
  ['a thinking budget that is missing', { thinking: { type: 'enabled' } }, '`thinking` must be'],
  ['a parameter that pawl sets', { params: { system: 'Be brief.' } }, 'params must not contain system, which pawl sets'],
  ['a limit among the parameters', { params: { max_tokens: 5 } }, 'params must not contain max_tokens, which pawl sets'],
  ['a list of parameters', { params: [] }, '`params` must be an object'],
  ['a misspelt price', { price: { ...price, cacheReads: 1 } }, 'There is no option price.cacheReads: did you mean price.cacheRead?'],
  ['a negative price', { price: { ...price, output: -1 } }, '`price.output` must be US dollars per million tokens, from 0 to 1,000,000'],
  ['a temperature', { temperature: 1 }, "Anthropic's API refuses temperature for every model from its version 2026-10-21 on"],
  ['top_k among the parameters', { params: { top_k: 5 } }, "Anthropic's API refuses top_k for every model from its version 2026-10-21 on"],
  [
    'cache_control beside the breakpoints of pawl',
    { params: { cache_control: { type: 'ephemeral' } } },
    'params must not contain cache_control while pawl sets its own cache breakpoints',
  ],
  ['a number for a price', { price: 5 }, '`price` must be an object { input, output, cacheRead?, cacheWrite?, webSearch? }, not 5.'],
])('a Claude model is refused with %s', (_, options, message) => {
  const refusal = { code: 'invalid_model', message: expect.stringContaining(`anthropic("claude-x"): ${message}`) }
  expect(() => anthropic('claude-x', options as AnthropicOptions)).toThrow(expect.objectContaining(refusal))
})

it('a Claude model accepts all kinds of thinking, and other parameters', () => {
  expect(() => anthropic('claude-x', { thinking: { type: 'adaptive' }, effort: 'max', price })).not.toThrow()
  expect(() => anthropic('claude-x', { thinking: { type: 'disabled' }, params: { stop_sequences: ['END'] } })).not.toThrow()
  expect(() => anthropic('claude-x', { thinking: { type: 'enabled', budget_tokens: 2_000 } })).not.toThrow()
})

it('a Claude model accepts parameters of an older API version with your own client, and cache_control with the cache off', () => {
  const client = { messages: { create: () => Promise.reject(new Error('no')) } }
  expect(() => anthropic('claude-x', { client, params: { temperature: 0 } as object })).not.toThrow()
  expect(() => anthropic('claude-x', { cache: 'off', params: { cache_control: { type: 'ephemeral', ttl: '1h' } } })).not.toThrow()
})
