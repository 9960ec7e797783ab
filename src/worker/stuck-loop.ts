// How long an executor's event loop may stand still before it is killed.
import { WorkerError } from './errors.ts'

const STUCK_LOOP_MS = 60_000
/**
 * The workflow takes an attempt for lost two minutes after its timeout. Whatever stands still must be dead by then: a grace, and
 * a few looks of the watch, before that.
 */
const STUCK_LOOP_AT_MOST_MS = 110_000

/** How long an event loop may stand still. @throws WorkerError `invalid_options`. */
export function checkStuckLoopMs(given: number | undefined): number {
  if (given === undefined) return STUCK_LOOP_MS
  if (Number.isFinite(given) && given > 0 && given <= STUCK_LOOP_AT_MOST_MS) return given
  throw new WorkerError(
    'invalid_options',
    `stuckLoopMs is ${String(given)}: give milliseconds above 0 and up to ${STUCK_LOOP_AT_MOST_MS}. An executor that stands still must be ` +
      'killed before its sessions take its calls for lost and verify or repeat them, two minutes after their timeouts.',
  )
}
