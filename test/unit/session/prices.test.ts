// What a model call is reported to have cost.
import { describe, expect, it } from 'vitest'
import { costOf, PRICES, priceOf, providerOf } from '../../../src/session/spending/prices.ts'

const usage = { input_tokens: 1_000, output_tokens: 500, cache_creation_input_tokens: 2_000, cache_read_input_tokens: 10_000 }
const at = Date.UTC(2026, 10, 21)

describe('the price of a call', () => {
  it('the price of a call is the sum of its tokens, each kind at its own rate', () => {
    // 1,000 × $3 + 500 × $15 + 2,000 × $3.75 + 10,000 × $0.30, per million tokens.
    expect(priceOf('claude-sonnet-4-5', usage, at)).toEqual({ usd: 0.021, since: '2025-09-29' })
    expect(priceOf('claude-sonnet-4-5-20250929', usage, at)?.usd).toBe(0.021)
    expect(priceOf('claude-3-5-haiku-latest', usage, at)?.usd).toBe(0.0056)
  })

  it('the price of a call is the one that applied on its day', () => {
    const read = { input_tokens: 0, output_tokens: 0, cache_creation_input_tokens: 0, cache_read_input_tokens: 1_000_000 }
    expect(priceOf('claude-sonnet-5-5', read, Date.UTC(2026, 9, 6, 23))).toEqual({ usd: 0.2, since: '2026-09-01' })
    expect(priceOf('claude-sonnet-5-5', read, Date.UTC(2026, 9, 7))).toEqual({ usd: 0.1, since: '2026-10-07' })
  })

  it('the price of a call is different for a long prompt if the model has two prices', () => {
    const short = { input_tokens: 100_000, output_tokens: 1_000, cache_creation_input_tokens: 0, cache_read_input_tokens: 0 }
    expect(priceOf('claude-haiku-5-5', short, at)?.usd).toBe(0.0105)
    expect(priceOf('claude-haiku-5-5', { ...short, cache_read_input_tokens: 1 }, at)?.usd).toBe(0.05250005)
  })

  it('the price of a call is known for models of OpenAI and Google, whose names may end in a date', () => {
    const short = { input_tokens: 1_000, output_tokens: 500, cache_creation_input_tokens: 0, cache_read_input_tokens: 10_000 }
    expect(priceOf('gpt-5.4-2026-03-05', short, at)).toEqual({ usd: 0.0125, since: '2026-03-05' })
    expect(priceOf('gpt-5.4', { ...short, input_tokens: 300_000 }, at)?.usd).toBe(1.51625)
    expect(priceOf('gemini-2.5-pro', short, at)).toEqual({ usd: 0.0075, since: '2025-06-17' })
    expect(['gpt-5.4', 'o3', 'gemini-3.5-flash', 'oracle-1'].map((model) => providerOf({ model }))).toEqual([
      'openai',
      'openai',
      'google',
      null,
    ])
  })

  it('the Model’s declared price of a call overrides the table; an invalid declaration is ignored', () => {
    const answer = { model: 'claude-sonnet-4-5', usage, at }
    expect(costOf(answer)).toEqual({ usd: 0.021, since: '2025-09-29' })
    expect(costOf({ ...answer, price: { input: 1, output: 2, cacheRead: 0.1, cacheWrite: 3 } })).toEqual({ usd: 0.009 })
    // Without rates of their own, cached tokens cost as much as other input tokens.
    expect(costOf({ ...answer, model: 'mine', price: { input: 1, output: 2 } })).toEqual({ usd: 0.014 })
    expect(costOf({ ...answer, price: { input: -1, output: 2 } })).toEqual({ usd: 0.021, since: '2025-09-29' })
  })

  it('the price of a call is not guessed for an unknown model', () => {
    expect(priceOf('scripted', usage, at)).toBeUndefined()
    expect(priceOf('claude-opus-99', usage, at)).toBeUndefined()
    expect([providerOf({ model: 'claude-opus-99' }), providerOf({ model: 'scripted' })]).toEqual(['anthropic', null])
  })

  it('the price of a call comes from a table that is sorted by date', () => {
    expect(PRICES.map((price) => price.since)).toEqual(PRICES.map((price) => price.since).toSorted())
  })
})
