// What a model costs, where its Model says so.

/** List price of a model, in US dollars per million tokens. */
export interface ModelPrice {
  /** Input tokens that no cache served. */
  input: number
  /** Output tokens, thinking included. */
  output: number
  /** Input tokens read from the cache. Default: as `input`. */
  cacheRead?: number
  /** Input tokens written to the cache. Default: as `input`. */
  cacheWrite?: number
}

/** More than any model costs: a price beyond it was meant in another unit. */
const MOST_USD = 1_000_000

/** The price, with no other members; undefined if it is not one. */
export function modelPrice(given: unknown): ModelPrice | undefined {
  if (typeof given !== 'object' || given === null) return undefined
  const { input, output, cacheRead, cacheWrite } = given as Record<string, unknown>
  if (!isRate(input) || !isRate(output)) return undefined
  if (cacheRead !== undefined && !isRate(cacheRead)) return undefined
  if (cacheWrite !== undefined && !isRate(cacheWrite)) return undefined
  return { input, output, ...(cacheRead !== undefined && { cacheRead }), ...(cacheWrite !== undefined && { cacheWrite }) }
}

function isRate(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MOST_USD
}
