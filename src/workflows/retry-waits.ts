// The waits between retries of activities that no worker serves. Parallel steps wait together, so that none delays another's next retry.
import { CancellationScope, condition, sleep } from '@temporalio/workflow'
import { backoffMs } from '../session/backoff.ts'

/** With two builds on one queue, the other one probably gets the next retry. A server timer may take a second. */
const IMMEDIATE_RETRIES = 2
const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/** Growing waits. */
export interface RetryWaits {
  /** Waits until the next retry: together with a step that already waits, otherwise as long as the number of retries requires. */
  wait(): Promise<void>
  /** Makes the next waits short again, because a worker served the request. */
  served(): void
}

/** The waits of one session. */
export function startRetryWaits(): RetryWaits {
  // Outside the scope of the step that waits first, because others may still be waiting when that step is stopped.
  const parent = CancellationScope.current()
  let asked = 0
  let round: { isOver: boolean } | undefined

  const waitMs = (): number => Math.min(backoffMs(FIRST_WAIT_MS, asked - IMMEDIATE_RETRIES), LONGEST_WAIT_MS)

  function begin(): { isOver: boolean } {
    const mine = { isOver: false }
    const end = (): void => {
      mine.isOver = true
      round = undefined
    }
    new CancellationScope({ cancellable: true, parent }).run(() => sleep(waitMs())).then(end, end)
    return mine
  }

  return {
    async wait() {
      if (!round) {
        asked += 1
        if (asked <= IMMEDIATE_RETRIES) return
        round = begin()
      }
      const mine = round
      await condition(() => mine.isOver)
    },
    served() {
      asked = 0
    },
  }
}
