// How long an executor's event loop may be blocked before it is killed.
import { WorkerError } from './errors.ts'

const STUCK_LOOP_MS = 60_000
/**
 * The workflow considers an attempt lost two minutes after its timeout. A blocked executor must be dead by then, with a margin for a grace
 * period and a few checks of the watch.
 */
const STUCK_LOOP_AT_MOST_MS = 110_000

/** How long an event loop may be blocked. @throws WorkerError `invalid_options`. */
export function checkStuckLoopMs(given: number | undefined): number {
  if (given === undefined) return STUCK_LOOP_MS
  if (Number.isFinite(given) && given > 0 && given <= STUCK_LOOP_AT_MOST_MS) return given
  throw new WorkerError(
    'invalid_options',
    `stuckLoopMs is ${String(given)}: give milliseconds above 0 and up to ${STUCK_LOOP_AT_MOST_MS}. A blocked executor must be ` +
      'killed before its sessions consider its calls lost and verify or repeat them, two minutes after their timeouts.',
  )
}
