// The waits between asks that nobody serves: those who ask side by side wait together, and none pushes the others' next ask away.
import { CancellationScope, condition, sleep } from '@temporalio/workflow'
import { backoffMs } from '../session/backoff.ts'

/** Of two builds on one queue the other one probably gets the next ask; a timer of the server may take a second. */
const ASKED_AT_ONCE = 2
const FIRST_WAIT_MS = 50
const LONGEST_WAIT_MS = 5_000

/** Waits that grow. */
export interface AskingAgain {
  /** Waits until it is time to ask again: with whoever waits already, else as long as the asks so far say. */
  wait(): Promise<void>
  /** Somebody has served: the next waits are short again. */
  served(): void
}

/** The waits of one session. */
export function startAskingAgain(): AskingAgain {
  // Not of the step that waits first: others may wait on when that is stopped.
  const parent = CancellationScope.current()
  let asked = 0
  let round: { isOver: boolean } | undefined

  const waitMs = (): number => Math.min(backoffMs(FIRST_WAIT_MS, asked - ASKED_AT_ONCE), LONGEST_WAIT_MS)

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
        if (asked <= ASKED_AT_ONCE) return
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
