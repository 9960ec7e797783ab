// How often pawl retries attempts that threw, and how long it waits before each retry.
import type { z } from 'zod'
import { duration, integer, options } from '../options/check.ts'
import { askedWaitMs, backoffMs } from '../session/backoff.ts'
import type { Duration } from '../session/duration.ts'

/** How often pawl retries an attempt that threw. */
export interface RetryOptions {
  /** Attempts after the first: an integer from 0. Default 3. */
  maxRetries?: number
  /** The wait before the first retry, from 0 to 24 days. It doubles each time up to a minute, with jitter. Default `'500ms'`. */
  baseDelay?: Duration
  /**
   * The longest wait that pawl accepts from a `retry-after` header or an error's `retryAfter`. It shortens a longer one, and ignores one of
   * more than a day. At most 24 days. Default `'10m'`.
   */
  maxRetryAfter?: Duration
}

/** The options, checked and completed. */
export interface RetryPolicy {
  /** Attempts after the first. */
  readonly maxRetries: number
  /** Milliseconds before the first retry. */
  readonly baseDelayMs: number
  /** The longest wait, in milliseconds, that a failure may ask for. */
  readonly maxRetryAfterMs: number
}

/** The values that `retry` accepts. */
export const RETRY = options(
  {
    maxRetries: integer(0).optional(),
    baseDelay: duration({ min: 0, example: '500ms' }).optional(),
    maxRetryAfter: duration({ example: '10m' }).optional(),
  },
  "an object such as { maxRetries: 5, baseDelay: '500ms' }",
)

/** The options, completed. */
export function retryPolicy({ maxRetries = 3, baseDelay = 500, maxRetryAfter = 600_000 }: z.output<typeof RETRY> = {}): RetryPolicy {
  return { maxRetries, baseDelayMs: baseDelay, maxRetryAfterMs: maxRetryAfter }
}

/**
 * Milliseconds before retry number `retry` (from 1): the wait that the error `asked` for, which may be any value, or a delay that doubles
 * each time.
 */
export function nextDelayMs({ baseDelayMs, maxRetryAfterMs }: RetryPolicy, retry: number, asked: unknown): number {
  const askedMs = askedWaitMs(asked)
  if (askedMs !== undefined) return Math.min(askedMs, maxRetryAfterMs)
  return Math.round(backoffMs(baseDelayMs, retry) * (0.75 + Math.random() * 0.5))
}
