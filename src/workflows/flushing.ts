// Flushes to the side store when no model call is about to trigger one. At most one is in flight, and no run awaits it.
import { CancellationScope, condition, patched, sleep } from '@temporalio/workflow'
import { flush } from './scheduling.ts'
import { eventsOf, type Journal } from './journal.ts'

/** How long to wait, after a flush whose watermark could not be read, before one with a newer watermark. */
const STALE_PAUSE_MS = 2_000
/** People should not wait longer than this to see a failed attempt. A provider may ask for a wait of minutes. */
const LONG_BACKOFF_MS = 5_000

export interface Flushing {
  /** Ensures that the journal's current events are flushed. */
  nudge(): void
  /** Resolves when everything in the journal is confirmed as stored, however long the store is unavailable. */
  drained(): Promise<void>
  /** Whether no flush is pending and everything is stored. */
  isDrained(): boolean
  /** The `seq` up to which everything is confirmed as stored. */
  storedSeq(): number
  /**
   * Stores the journal's current events and starts no other flush until released. Without a hold, a steady stream of events would keep a
   * flush pending forever.
   */
  hold(): FlushHold
}

export interface FlushHold {
  /** Whether no flush is pending and the events up to the hold are stored. */
  isStored(): boolean
  release(): void
}

/** Stores the failed attempt before a long backoff: the next attempt is what would otherwise trigger a flush. */
export function flushBeforeBackoff(flushing: Flushing, forMs: number): void {
  if (forMs >= LONG_BACKOFF_MS && patched('flush-before-backoff')) flushing.nudge()
}

/** Starts flushing `journal`, which is stored up to `flushedSeq`. `onForeign`: called if the store has another past for the session. */
export function startFlushing(journal: Journal, flushedSeq: number, onForeign: () => void): Flushing {
  let flushed = flushedSeq
  let wanted = flushedSeq
  let inFlight: Promise<void> | undefined
  let holds = 0
  let isForeign = false

  async function flushWanted(): Promise<void> {
    while (flushed < wanted) {
      const { seq, stale, foreign } = await flush(eventsOf(journal))
      // Nothing in this journal will be stored. A flush stays in flight until the workflow ends.
      if (foreign) {
        isForeign = true
        return onForeign()
      }
      if (!stale) journal.isUnconfirmed = false
      flushed = Math.max(flushed, seq)
      if (stale) await sleep(STALE_PAUSE_MS)
    }
    // Cleared in the same step as the check: a nudge between the two would rely on a flush that no longer looks for new events.
    inFlight = undefined
  }

  function nudge(): void {
    if (holds > 0) return
    wanted = journal.watermark().seq
    if (inFlight || flushed >= wanted) return
    inFlight = CancellationScope.nonCancellable(flushWanted)
  }

  const isDrained = (): boolean => inFlight === undefined && flushed >= journal.watermark().seq

  return {
    nudge,
    isDrained,
    storedSeq: () => flushed,
    async drained() {
      while (!isDrained()) {
        // Nothing will be stored, so wait until this execution ends. Awaiting the finished flush in a loop would never yield.
        if (isForeign) await condition(isDrained)
        nudge()
        await inFlight
      }
    },
    hold() {
      nudge()
      const upTo = journal.watermark().seq
      holds += 1
      return {
        isStored: () => inFlight === undefined && flushed >= upTo,
        release() {
          holds -= 1
          nudge()
        },
      }
    },
  }
}
