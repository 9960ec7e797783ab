// Standing approvals for a context: once such a rule is stored, it approves calls that wait in the sessions that it is for.
import { CancellationScope, condition } from '@temporalio/workflow'
import type { Flushing } from '../flushing.ts'
import type { Journal } from '../journal.ts'
import { whyLost } from '../lost-activity.ts'
import { releaseWaiting } from '../scheduling.ts'

export interface Releasing {
  /** Has the rule, which the newest event gives, approve what waits. No client waits for that. */
  begin(rule: string): void
  /** Whether calls are still to be approved: continue-as-new would lose that. */
  isBusy(): boolean
}

export function startReleasing(journal: Journal, flushing: Flushing): Releasing {
  let rules = 0

  async function release(rule: string, givenSeq: number): Promise<void> {
    // The store says which calls wait, and counts the rule's uses.
    await condition(() => journal.hasEnded || flushing.storedSeq() >= givenSeq)
    if (journal.hasEnded) return
    try {
      await releaseWaiting({ rule })
    } catch (error) {
      // The calls wait for a person, as before.
      whyLost(error)
    }
  }

  return {
    begin(rule) {
      rules += 1
      const givenSeq = journal.watermark().seq
      void CancellationScope.nonCancellable(() => release(rule, givenSeq)).then(() => void (rules -= 1))
    },
    isBusy: () => rules > 0,
  }
}
