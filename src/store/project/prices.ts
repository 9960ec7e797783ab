// Cost of model calls: dated list prices, and the price of one call by its usage.
import type { Usage } from '../../session/content.ts'

/** USD per million tokens. `cacheWrite`: of the five-minute cache, the only one that pawl's adapter uses. */
interface Rates {
  input: number
  output: number
  cacheWrite: number
  cacheRead: number
}

/** The price of a model from a day on, until its next entry. */
export interface Price extends Rates {
  /** The model's name in the API; a suffix with a date or `-latest` is the same model. */
  model: string
  /** First day of the price, in UTC (of the month, where the day is not known). */
  since: string
  /** The price of a call whose prompt (cached or not) has more tokens than this. */
  above?: { tokens: number } & Rates
}

/** Anthropic's list prices as published by 2026-11-01. Append, do not edit: earlier calls keep their price. */
export const PRICES: readonly Price[] = [
  { model: 'claude-3-opus', since: '2024-02-29', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-3-haiku', since: '2024-03-07', input: 0.25, output: 1.25, cacheWrite: 0.3, cacheRead: 0.03 },
  { model: 'claude-3-5-sonnet', since: '2024-06-20', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-3-5-haiku', since: '2024-10-22', input: 0.8, output: 4, cacheWrite: 1, cacheRead: 0.08 },
  { model: 'claude-3-7-sonnet', since: '2025-02-24', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-opus-4', since: '2025-05-22', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-opus-4-0', since: '2025-05-22', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-sonnet-4', since: '2025-05-22', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-sonnet-4-0', since: '2025-05-22', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-opus-4-1', since: '2025-08-05', input: 15, output: 75, cacheWrite: 18.75, cacheRead: 1.5 },
  { model: 'claude-sonnet-4-5', since: '2025-09-29', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-haiku-4-5', since: '2025-10-01', input: 1, output: 5, cacheWrite: 1.25, cacheRead: 0.1 },
  { model: 'claude-opus-4-5', since: '2025-11-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-opus-4-6', since: '2026-01-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-sonnet-4-6', since: '2026-01-01', input: 3, output: 15, cacheWrite: 3.75, cacheRead: 0.3 },
  { model: 'claude-opus-4-7', since: '2026-03-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-opus-4-8', since: '2026-04-01', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-fable-5', since: '2026-06-09', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 1 },
  { model: 'claude-mythos-5', since: '2026-06-09', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 1 },
  { model: 'claude-sonnet-5', since: '2026-06-30', input: 2, output: 10, cacheWrite: 2.5, cacheRead: 0.2 },
  { model: 'claude-opus-5', since: '2026-07-24', input: 5, output: 25, cacheWrite: 6.25, cacheRead: 0.5 },
  { model: 'claude-fable-5-1', since: '2026-08-01', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 0.25 },
  { model: 'claude-mythos-5-1', since: '2026-08-01', input: 10, output: 50, cacheWrite: 12.5, cacheRead: 0.25 },
  { model: 'claude-sonnet-5-5', since: '2026-09-01', input: 2, output: 10, cacheWrite: 2.5, cacheRead: 0.2 },
  { model: 'claude-opus-5-5', since: '2026-09-01', input: 4, output: 20, cacheWrite: 5, cacheRead: 0.2 },
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
]

/** Prefixes of a model's name that name its provider. */
export function providerOf(model: string): string | null {
  return model.startsWith('claude-') ? 'anthropic' : null
}

/** The cost of a call at `at` (milliseconds since 1970), and the first day of its price; undefined without a known price. */
export function priceOf(model: string, usage: Usage, at: number): { usd: number; since: string } | undefined {
  const day = new Date(at).toISOString().slice(0, 10)
  const name = model.replace(/-(?:\d{8}|latest)$/, '')
  const entries = PRICES.filter((price) => price.model === name)
  // A call before the first entry's day comes from a wrong clock: the price is the same.
  const price = entries.findLast(({ since }) => since <= day) ?? entries[0]
  if (!price) return undefined
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  const prompt = input_tokens + cache_creation_input_tokens + cache_read_input_tokens
  const { input, output, cacheWrite, cacheRead } = price.above && prompt > price.above.tokens ? price.above : price
  const perMillion =
    input_tokens * input + output_tokens * output + cache_creation_input_tokens * cacheWrite + cache_read_input_tokens * cacheRead
  return { usd: exactUsd(perMillion / 1_000_000), since: price.since }
}

/** Prices have at most three decimals per million tokens, so nine decimals hold every sum. */
export function exactUsd(usd: number): number {
  return Number(usd.toFixed(10))
}
