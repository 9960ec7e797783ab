// The option `price` of all models.
import { where } from '../options/check.ts'
import { type ModelPrice, modelPrice } from '../session/model-price.ts'

/** A price that a Model declares. */
export const modelPriceOption = where<ModelPrice>(
  (value) => modelPrice(value) !== undefined,
  'US dollars per million tokens: { input, output, cacheRead?, cacheWrite? }',
)
