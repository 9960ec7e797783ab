// How often attempts that threw are made again, and how long the next one is waited for.
import { backoffMs, waitMs } from '../session/backoff.ts'
import { type Duration, milliseconds } from '../session/duration.ts'

/** How often an attempt that threw is made again. */
export interface RetryOptions {
  /** Attempts after the first. Default 3. */
  maxRetries?: number
  /** Milliseconds before the first retry, doubled each time up to a minute, with jitter. Default 500. */
  baseDelayMs?: number
  /** The longest wait that a `retry-after` header, or an error's `retryAfter`, may ask for; a longer one is cut to it. Default 10 minutes. */
  maxRetryAfter?: Duration
}

/** The options, checked and completed. */
export interface RetryPolicy {
  readonly maxRetries: number
  readonly baseDelayMs: number
  readonly maxRetryAfterMs: number
}

const DEFAULT_MAX_RETRY_AFTER = '10m'

/** Checks the options; `bad` throws what is wrong with them. */
export function retryPolicy(options: RetryOptions = {}, bad: (what: string) => never): RetryPolicy {
  const { maxRetries = 3, baseDelayMs = 500, maxRetryAfter = DEFAULT_MAX_RETRY_AFTER } = options
  if (!(Number.isInteger(maxRetries) && maxRetries >= 0)) bad('retry.maxRetries must be an integer from 0.')
  if (!(Number.isFinite(baseDelayMs) && baseDelayMs >= 0)) bad('retry.baseDelayMs must be a number of milliseconds from 0.')
  const maxRetryAfterMs =
    milliseconds(maxRetryAfter) ?? bad("retry.maxRetryAfter must be a positive number of milliseconds, or text like '10m', up to 24 days.")
  return { maxRetries, baseDelayMs, maxRetryAfterMs }
}

/** Milliseconds before retry number `retry` (from 1): as `asked` for by who failed, who may be anyone, or doubled each time. */
export function nextDelayMs({ baseDelayMs, maxRetryAfterMs }: RetryPolicy, retry: number, asked: unknown): number {
  const askedMs = waitMs(asked)
  if (askedMs !== undefined) return Math.min(askedMs, maxRetryAfterMs)
  return Math.round(backoffMs(baseDelayMs, retry) * (0.75 + Math.random() * 0.5))
}
