// What goes wrong between an activity and the events it works on.
import { ApplicationFailure } from '@temporalio/activity'
import { PawlError } from '../session/errors.ts'

const NOT_SERVED_RETRY_MS = 1_000
const ARCHIVE_RETRY_MS = 2_000

/** Has Temporal ask again, perhaps of another worker. */
export function notServed(worker: string, what: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'NotServed', message: `${worker} does not serve ${what}`, nextRetryDelay: NOT_SERVED_RETRY_MS })
}

/** Has Temporal ask again: the store may be back by then. */
export function archiveAway(message: string): ApplicationFailure {
  return ApplicationFailure.create({ type: 'ArchiveUnavailable', message, nextRetryDelay: ARCHIVE_RETRY_MS })
}

/** Neither the log nor any execution has the events that the watermark names. */
export class StaleWatermark extends PawlError {
  override readonly name = 'StaleWatermark'

  constructor(what: string) {
    super('stale_watermark', `The events up to the watermark cannot be had: ${what}. The workflow asks again by itself.`)
  }
}

/** A read gave what does not fit the tool's `output` schema. */
export class InvalidResult extends PawlError {
  override readonly name = 'InvalidResult'

  constructor(problem: string) {
    super('invalid_result', `The tool's result does not fit its output schema. ${problem}`)
  }
}

/** The server does not count on this attempt any more: another one may be going on. */
export class AttemptLost extends PawlError {
  override readonly name = 'AttemptLost'

  constructor(options?: { cause?: unknown }) {
    super('attempt_lost', 'This attempt is not the live one any more; nothing was begun. Another attempt goes on.', options)
  }
}
