// What a model costs, if its Model declares a price, and the cost of one call by its usage.
import type { Usage } from '../content.ts'
import { defined } from '../defined.ts'

/** List price of a model, in US dollars per million tokens. */
export interface ModelPrice {
  /** Input tokens that no cache served. */
  input: number
  /** Output tokens, thinking included. */
  output: number
  /** Input tokens read from the cache. Default: the same as `input`. */
  cacheRead?: number
  /** Input tokens written to the cache. Default: the same as `input`. */
  cacheWrite?: number
  /** One thousand web searches that the provider runs, in US dollars. Default: 0. */
  webSearch?: number
}

/** More than any model costs; a higher price must be in another unit. */
const MAX_USD = 1_000_000

/** The value as a price, without other members; undefined if it is not a valid price. */
export function modelPrice(given: unknown): ModelPrice | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const { input, output, cacheRead, cacheWrite, webSearch } = given as Record<string, unknown>
  if (!isRate(input) || !isRate(output)) return undefined
  if (cacheRead !== undefined && !isRate(cacheRead)) return undefined
  if (cacheWrite !== undefined && !isRate(cacheWrite)) return undefined
  if (webSearch !== undefined && !isRate(webSearch)) return undefined
  return { input, output, ...defined({ cacheRead, cacheWrite, webSearch }) }
}

/** Whether a value is a price in US dollars per million tokens. */
export function isRate(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_USD
}

/** The cost of a call, in US dollars. */
export function usdOf({ input, output, cacheWrite = input, cacheRead = input, webSearch = 0 }: ModelPrice, usage: Usage): number {
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, web_search_requests = 0 } = usage
  const perMillion =
    input_tokens * input + output_tokens * output + cache_creation_input_tokens * cacheWrite + cache_read_input_tokens * cacheRead
  return exactUsd(perMillion / 1_000_000 + (web_search_requests * webSearch) / 1_000)
}

/** Prices have at most three decimals per million tokens, so nine decimals hold every sum. */
export function exactUsd(usd: number): number {
  return Number(usd.toFixed(10))
}
