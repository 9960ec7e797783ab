// Errors that end a job without a result.
import { PawlError } from '../session/errors.ts'
import type { FailedAttempt } from '../session/call-facts.ts'

const NOT_SERVED_RETRY_MS = 1_000
const ARCHIVE_RETRY_MS = 2_000

/** Makes Temporal schedule the activity again after a while, perhaps on another worker. */
export class TryAgain extends PawlError {
  override readonly name = 'TryAgain'
  /** The type of the activity's failure. */
  readonly type: string
  readonly afterMs: number
  /** The failed attempt, to be recorded first. */
  readonly failed: FailedAttempt | undefined

  constructor(type: string, message: string, options: { afterMs: number; failed?: FailedAttempt }) {
    super('try_again', message)
    this.type = type
    this.afterMs = options.afterMs
    this.failed = options.failed
  }
}

/** Another worker may serve the agent, now or later. */
export function notServed(worker: string, what: string): TryAgain {
  return new TryAgain('NotServed', `${worker} does not serve ${what}`, { afterMs: NOT_SERVED_RETRY_MS })
}

/** How soon a session looks again whether a budget that it shares has room. By then, workers no longer count what is stored twice. */
const BUDGET_RETRY_MS = 15_000

/** Retries later, when the period of the budget may have ended, or its limit been raised. */
export function budgetAway(message: string): TryAgain {
  return new TryAgain('BudgetExhausted', message, { afterMs: BUDGET_RETRY_MS })
}

/** Retries later, when the store may be back. */
export function archiveAway(message: string): TryAgain {
  return new TryAgain('ArchiveUnavailable', message, { afterMs: ARCHIVE_RETRY_MS })
}

/** A read's result does not match the tool's `output` schema. */
export class InvalidResult extends PawlError {
  override readonly name = 'InvalidResult'

  constructor(problem: string) {
    super('invalid_result', `The tool's result does not match its output schema. ${problem}`)
  }
}

/** The server has given up on this attempt, and another one may be running. */
export class AttemptLost extends PawlError {
  override readonly name = 'AttemptLost'

  constructor(options?: { cause?: unknown }) {
    super('attempt_lost', 'This attempt is no longer the current one, and nothing was begun. Another attempt takes over.', options)
  }
}

/** Neither the event log nor any execution has the events of the watermark. */
export class StaleWatermark extends PawlError {
  override readonly name = 'StaleWatermark'

  /** What is missing or differs. */
  readonly what: string

  constructor(what: string) {
    super('stale_watermark', `The events up to the watermark cannot be read: ${what}. The workflow retries by itself.`)
    this.what = what
  }
}

/** A large value cannot be read now. */
export class ArchiveUnavailable extends PawlError {
  override readonly name = 'ArchiveUnavailable'

  constructor(options: { cause: unknown }) {
    super(
      'archive_unavailable',
      'The session needs large values from the side store, which cannot be reached now. It resumes by itself when the store is back.',
      options,
    )
  }
}
