// The option `price` of all models.
import { options, where } from '../options/check.ts'
import { isRate } from '../session/spending/model-price.ts'

const rate = where<number>(isRate, 'US dollars per million tokens, from 0 to 1,000,000')

/** A price that a Model declares. */
export const modelPriceOption = options(
  { input: rate, output: rate, cacheRead: rate.optional(), cacheWrite: rate.optional(), webSearch: rate.optional() },
  'an object { input, output, cacheRead?, cacheWrite?, webSearch? }',
)
