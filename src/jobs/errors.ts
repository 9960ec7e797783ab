// What ends a job other than an answer.
import { PawlError } from '../session/errors.ts'
import type { FailedAttempt } from '../session/events.ts'

const NOT_SERVED_RETRY_MS = 1_000
const ARCHIVE_RETRY_MS = 2_000

/** Has Temporal schedule the activity again after a while, perhaps on another worker. */
export class TryAgain extends PawlError {
  override readonly name = 'TryAgain'
  /** The type of the activity's failure. */
  readonly type: string
  readonly afterMs: number
  /** The attempt that failed, to be recorded before. */
  readonly failed: FailedAttempt | undefined

  constructor(type: string, message: string, options: { afterMs: number; failed?: FailedAttempt }) {
    super('try_again', message)
    this.type = type
    this.afterMs = options.afterMs
    this.failed = options.failed
  }
}

/** Another worker may serve it, now or later. */
export function notServed(worker: string, what: string): TryAgain {
  return new TryAgain('NotServed', `${worker} does not serve ${what}`, { afterMs: NOT_SERVED_RETRY_MS })
}

/** The store may be back by then. */
export function archiveAway(message: string): TryAgain {
  return new TryAgain('ArchiveUnavailable', message, { afterMs: ARCHIVE_RETRY_MS })
}

/** A read returned what does not fit the tool's `output` schema. */
export class InvalidResult extends PawlError {
  override readonly name = 'InvalidResult'

  constructor(problem: string) {
    super('invalid_result', `The tool's result does not fit its output schema. ${problem}`)
  }
}

/** The server no longer counts on this attempt: another one may be running. */
export class AttemptLost extends PawlError {
  override readonly name = 'AttemptLost'

  constructor(options?: { cause?: unknown }) {
    super('attempt_lost', 'This attempt is not the live one any more; nothing was begun. Another attempt takes over.', options)
  }
}

/** Neither the log nor any execution has the events that the watermark names. */
export class StaleWatermark extends PawlError {
  override readonly name = 'StaleWatermark'

  constructor(what: string) {
    super('stale_watermark', `The events up to the watermark cannot be read: ${what}. The workflow asks again by itself.`)
  }
}

/** A value that events refer to cannot be read now. */
export class ArchiveUnavailable extends PawlError {
  override readonly name = 'ArchiveUnavailable'

  constructor(options: { cause: unknown }) {
    super(
      'archive_unavailable',
      'The session has values that lie in the side store, which cannot be reached now: it resumes by itself when the store is back.',
      options,
    )
  }
}
