// How durations are read.
import { expect, it } from 'vitest'
import { LONGEST_MS, milliseconds } from '../../../src/session/duration.ts'

it.each<[unknown, number]>([
  [250, 250],
  ['250ms', 250],
  ['1.5s', 1_500],
  ['5m', 300_000],
  ['24h', 86_400_000],
  ['7d', 604_800_000],
  ['2w', 1_209_600_000],
  [LONGEST_MS, LONGEST_MS],
])('%j is %i ms', (duration, ms) => {
  expect(milliseconds(duration)).toBe(ms)
})

it.each([
  0,
  -1,
  '0s',
  '30',
  's',
  '1 s',
  '-5s',
  '25d',
  '1y',
  LONGEST_MS + 1,
  Number.NaN,
  Number.POSITIVE_INFINITY,
  null,
  undefined,
  {},
  [5],
])('%j is not a duration', (duration) => {
  expect(milliseconds(duration)).toBeUndefined()
})

it('a duration may be zero, or longer than usual, if the caller allows it', () => {
  expect(milliseconds(0, { min: 0 })).toBe(0)
  expect(milliseconds('1y', { max: Number.MAX_SAFE_INTEGER })).toBe(31_536_000_000)
})
