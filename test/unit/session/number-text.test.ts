// Numbers in messages have separators between thousands.
import { expect, it } from 'vitest'
import { numberText } from '../../../src/session/number-text.ts'

it.each([
  [0, '0'],
  [999, '999'],
  [1_000, '1,000'],
  [128_000, '128,000'],
  [20_000_000, '20,000,000'],
  [0.012345, '0.012345'],
  [1_234.5678, '1,234.5678'],
  [-1_500, '-1,500'],
])('the number %s is shown as %s', (value, text) => {
  expect(numberText(value)).toBe(text)
})
