// How long pawl waits before the next attempt, whatever wait is requested.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { nextDelayMs, RETRY, retryPolicy } from '../../../src/agent/retry.ts'
import { checkOptions } from '../../../src/options/check.ts'
import { backoffMs, timerMs } from '../../../src/session/backoff.ts'

describe('a backoff', () => {
  it('a backoff doubles up to a minute', () => {
    expect([1, 2, 3, 4, 20].map((retry) => backoffMs(500, retry))).toEqual([500, 1_000, 2_000, 4_000, 60_000])
  })

  it('a backoff is a finite number of milliseconds after any number of retries', () => {
    const base = fc.double({ min: 0, noNaN: true })
    fc.assert(
      fc.property(base, fc.integer(), (baseDelayMs, retry) => {
        const ms = backoffMs(baseDelayMs, retry)
        expect(ms).toBeGreaterThanOrEqual(0)
        expect(ms).toBeLessThanOrEqual(60_000)
      }),
    )
    expect(backoffMs(0, 5_000)).toBe(0)
  })
})

describe('a requested wait', () => {
  const policy = retryPolicy({ maxRetryAfter: 2_000 })

  it('a requested wait is limited to maxRetryAfter, ten minutes by default', () => {
    expect(nextDelayMs(policy, 1, 1_500)).toBe(1_500)
    expect(nextDelayMs(policy, 1, 86_400_000)).toBe(2_000)
    expect(nextDelayMs(retryPolicy(), 1, 86_400_000)).toBe(600_000)
  })

  it('a requested wait that is not valid, or is longer than a day, is ignored', () => {
    for (const asked of [undefined, null, Number.NaN, Number.POSITIVE_INFINITY, -1, 'soon', {}, 86_400_001, 1e18]) {
      expect(nextDelayMs(policy, 1, asked)).toBeLessThanOrEqual(625)
    }
  })

  it('any requested wait becomes a valid timer of the workflow', () => {
    fc.assert(
      fc.property(fc.anything(), (asked) => {
        const ms = timerMs(asked)
        expect(Number.isInteger(ms) && ms >= 1 && ms < 2 ** 31).toBe(true)
      }),
    )
  })
})

it.each([
  { maxRetryAfter: 'soon' },
  { maxRetryAfter: 0 },
  { maxRetryAfter: '40d' },
  { maxRetries: 1.5 },
  { baseDelay: Number.NaN },
  { delay: 5 },
])('the retry options %j are refused', (options) => {
  expect(() => checkOptions(RETRY, options)).toThrow(expect.objectContaining({ code: 'invalid_option' }))
})
