// Cost of model calls: dated list prices, and the price of one call by its usage.
import type { Usage } from '../content.ts'
import { defined } from '../defined.ts'
import { type ModelPrice, modelPrice, usdOf } from './model-price.ts'
import type { PaidCall } from './paid-call.ts'

/** `cacheWrite`: the rate of Anthropic's five-minute cache, the only one that pawl's adapter uses; absent if writes are billed as input. */
interface Rates extends ModelPrice {
  cacheRead: number
}

/** The price of a model from a day on, until its next entry. */
export interface Price extends Rates {
  /** The model's name in the API; a suffix with a date or `-latest` is the same model. */
  model: string
  /** First day of the price, in UTC (of the month, if the day is not known). */
  since: string
  /** The price of a call whose prompt (cached or not) has more tokens than this. */
  above?: { tokens: number } & Rates
}

/**
 * List prices as published by 2026-11-25. Append entries and never edit them, because earlier calls keep their price. A Model's own `price`
 * takes precedence.
 */
export const PRICES: readonly Price[] = [
  { model: 'claude-3-opus', since: '2024-02-29', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-3-haiku', since: '2024-03-07', input: 0.25, output: 1.25, cacheWrite: 0.3, cacheRead: 0.03 },
  { model: 'claude-3-5-sonnet', since: '2024-06-20', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'gpt-4o-mini', since: '2024-07-18', input: 0.15, output: 0.6, cacheRead: 0.075 },
  { model: 'gpt-4o', since: '2024-08-06', input: 2.5, output: 10, cacheRead: 1.25 },
  { model: 'claude-3-5-haiku', since: '2024-10-22', input: 0.8, output: 4, cacheWrite: 1, cacheRead: 0.08 },
  { model: 'o3-mini', since: '2025-01-31', input: 1.1, output: 4.4, cacheRead: 0.55 },
  { model: 'claude-3-7-sonnet', since: '2025-02-24', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'gpt-4.1', since: '2025-04-14', input: 2, output: 8, cacheRead: 0.5 },
  { model: 'gpt-4.1-mini', since: '2025-04-14', input: 0.4, output: 1.6, cacheRead: 0.1 },
  { model: 'gpt-4.1-nano', since: '2025-04-14', input: 0.1, output: 0.4, cacheRead: 0.025 },
  { model: 'o4-mini', since: '2025-04-16', input: 1.1, output: 4.4, cacheRead: 0.275 },
  { model: 'claude-opus-4', since: '2025-05-22', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-opus-4-0', since: '2025-05-22', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-sonnet-4', since: '2025-05-22', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-sonnet-4-0', since: '2025-05-22', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'o3', since: '2025-06-10', input: 2, output: 8, cacheRead: 0.5 },
  { model: 'gemini-2.5-flash', since: '2025-06-17', input: 0.3, output: 2.5, cacheRead: 0.03 },
  {
    model: 'gemini-2.5-pro',
    since: '2025-06-17',
    input: 1.25,
    output: 10,
    cacheRead: 0.125,
    above: { tokens: 200_000, input: 2.5, output: 15, cacheRead: 0.25 },
  },
  { model: 'gemini-2.5-flash-lite', since: '2025-07-22', input: 0.1, output: 0.4, cacheRead: 0.01 },
  { model: 'claude-opus-4-1', since: '2025-08-05', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'gpt-5', since: '2025-08-07', input: 1.25, output: 10, cacheRead: 0.125 },
  { model: 'gpt-5-mini', since: '2025-08-07', input: 0.25, output: 2, cacheRead: 0.025 },
  { model: 'gpt-5-nano', since: '2025-08-07', input: 0.05, output: 0.4, cacheRead: 0.005 },
  { model: 'claude-sonnet-4-5', since: '2025-09-29', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-haiku-4-5', since: '2025-10-01', input: 1, output: 5, cacheWrite: 1.25, cacheRead: 0.1 },
  { model: 'claude-opus-4-5', since: '2025-11-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'gpt-5.1', since: '2025-11-13', input: 1.25, output: 10, cacheRead: 0.125 },
  {
    model: 'gemini-3-pro-preview',
    since: '2025-11-18',
    input: 2,
    output: 12,
    cacheRead: 0.2,
    above: { tokens: 200_000, input: 4, output: 18, cacheRead: 0.4 },
  },
  { model: 'gpt-5.2', since: '2025-12-11', input: 1.75, output: 14, cacheRead: 0.175 },
  { model: 'gemini-3-flash-preview', since: '2025-12-17', input: 0.5, output: 3, cacheRead: 0.05 },
  { model: 'claude-opus-4-6', since: '2026-01-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-sonnet-4-6', since: '2026-01-01', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'gpt-5.3-codex', since: '2026-02-01', input: 1.75, output: 14, cacheRead: 0.175 },
  {
    model: 'gemini-3.1-pro-preview',
    since: '2026-02-19',
    input: 2,
    output: 12,
    cacheRead: 0.2,
    above: { tokens: 200_000, input: 4, output: 18, cacheRead: 0.4 },
  },
  { model: 'claude-opus-4-7', since: '2026-03-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'gemini-3.1-flash-lite', since: '2026-03-03', input: 0.25, output: 1.5, cacheRead: 0.025 },
  { model: 'gemini-3.1-flash-lite-preview', since: '2026-03-03', input: 0.25, output: 1.5, cacheRead: 0.025 },
  {
    model: 'gpt-5.4',
    since: '2026-03-05',
    input: 2.5,
    output: 15,
    cacheRead: 0.25,
    above: { tokens: 272_000, input: 5, output: 22.5, cacheRead: 0.5 },
  },
  { model: 'gpt-5.4-mini', since: '2026-03-17', input: 0.75, output: 4.5, cacheRead: 0.075 },
  { model: 'gpt-5.4-nano', since: '2026-03-17', input: 0.2, output: 1.25, cacheRead: 0.02 },
  { model: 'claude-opus-4-8', since: '2026-04-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  {
    model: 'gpt-5.5',
    since: '2026-04-23',
    input: 5,
    output: 30,
    cacheRead: 0.5,
    above: { tokens: 272_000, input: 10, output: 45, cacheRead: 1 },
  },
  { model: 'gemini-3.5-flash', since: '2026-05-19', input: 1.5, output: 9, cacheRead: 0.15 },
  { model: 'claude-fable-5', since: '2026-06-09', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 1 },
  { model: 'claude-mythos-5', since: '2026-06-09', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 1 },
  { model: 'claude-sonnet-5', since: '2026-06-30', input: 2, output: 10, cacheWrite: 2.5, cacheRead: 0.2 },
  {
    model: 'gpt-5.6',
    since: '2026-07-09',
    input: 5,
    output: 30,
    cacheWrite: 6.25,
    cacheRead: 0.5,
    above: { tokens: 272_000, input: 10, output: 45, cacheWrite: 12.5, cacheRead: 1 },
  },
  {
    model: 'gpt-5.6-sol',
    since: '2026-07-09',
    input: 5,
    output: 30,
    cacheWrite: 6.25,
    cacheRead: 0.5,
    above: { tokens: 272_000, input: 10, output: 45, cacheWrite: 12.5, cacheRead: 1 },
  },
  {
    model: 'gpt-5.6-terra',
    since: '2026-07-09',
    input: 2.5,
    output: 15,
    cacheWrite: 3.125,
    cacheRead: 0.25,
    above: { tokens: 272_000, input: 5, output: 22.5, cacheWrite: 6.25, cacheRead: 0.5 },
  },
  {
    model: 'gpt-5.6-luna',
    since: '2026-07-09',
    input: 1,
    output: 6,
    cacheWrite: 1.25,
    cacheRead: 0.1,
    above: { tokens: 272_000, input: 2, output: 9, cacheWrite: 2.5, cacheRead: 0.2 },
  },
  { model: 'gemini-3.5-flash-lite', since: '2026-07-22', input: 0.3, output: 2.5, cacheRead: 0.03 },
  { model: 'gemini-3.6-flash', since: '2026-07-22', input: 1.5, output: 7.5, cacheRead: 0.15 },
  { model: 'claude-opus-5', since: '2026-07-24', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  {
    model: 'gpt-5.6-terra',
    since: '2026-07-30',
    input: 2,
    output: 12,
    cacheWrite: 2.5,
    cacheRead: 0.2,
    above: { tokens: 272_000, input: 4, output: 18, cacheWrite: 5, cacheRead: 0.4 },
  },
  {
    model: 'gpt-5.6-luna',
    since: '2026-07-30',
    input: 0.2,
    output: 1.2,
    cacheWrite: 0.25,
    cacheRead: 0.02,
    above: { tokens: 272_000, input: 0.4, output: 1.8, cacheWrite: 0.5, cacheRead: 0.04 },
  },
  { model: 'gemini-3.6-flash', since: '2026-08-01', input: 0.75, output: 3.75, cacheRead: 0.075 },
  { model: 'gemini-3.7-flash', since: '2026-08-01', input: 0.75, output: 3.75, cacheRead: 0.075 },
  { model: 'claude-fable-5-1', since: '2026-08-01', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 0.25 },
  { model: 'claude-mythos-5-1', since: '2026-08-01', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 0.25 },
  {
    model: 'gpt-5.6',
    since: '2026-08-21',
    input: 4,
    output: 20,
    cacheWrite: 5,
    cacheRead: 0.4,
    above: { tokens: 272_000, input: 8, output: 30, cacheWrite: 10, cacheRead: 0.8 },
  },
  {
    model: 'gpt-5.6-sol',
    since: '2026-08-21',
    input: 4,
    output: 20,
    cacheWrite: 5,
    cacheRead: 0.4,
    above: { tokens: 272_000, input: 8, output: 30, cacheWrite: 10, cacheRead: 0.8 },
  },
  { model: 'claude-sonnet-5-5', since: '2026-09-01', input: 2, output: 10, cacheWrite: 2.5, cacheRead: 0.2 },
  { model: 'claude-opus-5-5', since: '2026-09-01', input: 4, output: 20, cacheWrite: 5, cacheRead: 0.2 },
  { model: 'gemini-3.8-flash', since: '2026-09-02', input: 0.75, output: 3.75, cacheRead: 0.075 },
  {
    model: 'gpt-6-astra',
    since: '2026-09-03',
    input: 10,
    output: 50,
    cacheWrite: 12.5,
    cacheRead: 1,
    above: { tokens: 272_000, input: 20, output: 75, cacheWrite: 25, cacheRead: 2 },
  },
  {
    model: 'gpt-6-sol',
    since: '2026-09-22',
    input: 2,
    output: 10,
    cacheWrite: 2.5,
    cacheRead: 0.2,
    above: { tokens: 272_000, input: 4, output: 15, cacheWrite: 5, cacheRead: 0.4 },
  },
  {
    model: 'gpt-6-luna',
    since: '2026-09-22',
    input: 0.1,
    output: 0.5,
    cacheWrite: 0.125,
    cacheRead: 0.01,
    above: { tokens: 272_000, input: 0.2, output: 0.75, cacheWrite: 0.25, cacheRead: 0.02 },
  },
  {
    model: 'gpt-6.1-sol',
    since: '2026-09-29',
    input: 2,
    output: 10,
    cacheWrite: 2.5,
    cacheRead: 0.1,
    above: { tokens: 272_000, input: 4, output: 15, cacheWrite: 5, cacheRead: 0.2 },
  },
  { model: 'claude-sonnet-5-5', since: '2026-10-07', input: 2, output: 10, cacheWrite: 2.5, cacheRead: 0.1 },
  {
    model: 'claude-haiku-5-5',
    since: '2026-10-07',
    input: 0.1,
    output: 0.5,
    cacheWrite: 0.125,
    cacheRead: 0.01,
    above: { tokens: 100_000, input: 0.5, output: 2.5, cacheWrite: 0.625, cacheRead: 0.05 },
  },
  {
    model: 'gpt-6.1-terra',
    since: '2026-10-26',
    input: 1,
    output: 5,
    cacheWrite: 1.25,
    cacheRead: 0.05,
    above: { tokens: 272_000, input: 2, output: 7.5, cacheWrite: 2.5, cacheRead: 0.1 },
  },
  { model: 'gemini-4-neon', since: '2026-11-01', input: 3, output: 15, cacheRead: 0.15 },
  { model: 'gemini-4-hydrogen', since: '2026-11-01', input: 1.5, output: 7.5, cacheRead: 0.075 },
  { model: 'claude-fable-5-2', since: '2026-11-09', input: 8, output: 40, cacheWrite: 10, cacheRead: 0.2 },
  { model: 'claude-mythos-5-2', since: '2026-11-09', input: 8, output: 40, cacheWrite: 10, cacheRead: 0.2 },
  {
    model: 'gpt-6.2-sol',
    since: '2026-11-17',
    input: 2,
    output: 10,
    cacheWrite: 2.5,
    cacheRead: 0.1,
    above: { tokens: 272_000, input: 4, output: 15, cacheWrite: 5, cacheRead: 0.2 },
  },
  {
    model: 'gpt-6.2-astra',
    since: '2026-11-17',
    input: 8,
    output: 40,
    cacheWrite: 10,
    cacheRead: 0.4,
    above: { tokens: 272_000, input: 16, output: 60, cacheWrite: 20, cacheRead: 0.8 },
  },
  // The end of a promotion that Google has announced.
  { model: 'gemini-3.6-flash', since: '2027-01-01', input: 1.5, output: 7.5, cacheRead: 0.15 },
  { model: 'gemini-3.7-flash', since: '2027-01-01', input: 1.5, output: 7.5, cacheRead: 0.15 },
  { model: 'gemini-3.8-flash', since: '2027-01-01', input: 1.5, output: 7.5, cacheRead: 0.15 },
]

const PROVIDERS: readonly [RegExp, string][] = [
  [/^claude-/, 'anthropic'],
  [/^(?:gpt-|chatgpt-|o\d)/, 'openai'],
  [/^gemini-/, 'google'],
]

/** A model that was called: its name, and the provider that the Model names. */
export interface CalledModel {
  model?: string | undefined
  provider?: string | undefined
}

/** Gateways to models of many providers. */
const GATEWAYS = /^(?:gateway|openrouter)\b/

/** The provider without its interface (`openai` of `openai.responses`), or the one that the model's name indicates; null if neither is known. */
export function providerOf({ model = '', provider }: CalledModel): string | null {
  const [named] = provider === undefined || GATEWAYS.test(provider) ? [] : provider.split('.', 1)
  return named ?? PROVIDERS.find(([begins]) => begins.test(model))?.[1] ?? null
}

/** The cost of an answer: at the price that its Model declared, otherwise by the table. `since`: the first day of the table's price. */
export function costOf(answer: PaidCall): { usd: number; since?: string } | undefined {
  const declared = modelPrice(answer.price)
  return declared ? { usd: usdOf(declared, answer.usage) } : priceOf(answer.model, answer.usage, answer.at)
}

/** The cost of a call at `at` (milliseconds since 1970), and the first day of its price; undefined without a known price. */
export function priceOf(model: string, usage: Usage, at: number): { usd: number; since: string } | undefined {
  const price = listPrice(model, at)
  if (!price) return undefined
  const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  const prompt = input_tokens + cache_creation_input_tokens + cache_read_input_tokens
  return { usd: usdOf(ratesFor(price, prompt), usage), since: price.since }
}

/** The list price of a model at `at`; undefined if it has none. */
export function listPrice(model: string, at: number): Price | undefined {
  const day = new Date(at).toISOString().slice(0, 10)
  const name = model.replace(/-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)$/, '')
  const entries = PRICES.filter((price) => price.model === name)
  // A call dated before the first entry comes from a wrong clock, so that entry's price applies.
  const price = entries.findLast(({ since }) => since <= day) ?? entries[0]
  return price && CLAUDE.test(name) ? { webSearch: CLAUDE_SEARCHES, ...price } : price
}

const CLAUDE = /^claude-/
/** Anthropic's price of a thousand web searches, the same for every model since the tool exists. */
const CLAUDE_SEARCHES = 10

/** The rates for a call with this many tokens in its prompt, cached or not. */
export function ratesFor(price: Price, prompt: number): ModelPrice {
  const { input, output, cacheRead, cacheWrite } = price.above && prompt > price.above.tokens ? price.above : price
  return { input, output, cacheRead, ...defined({ cacheWrite, webSearch: price.webSearch }) }
}
