// Flushes: what brings events to the side store where no model call is about to do so. One in flight, never awaited by a run.
import { CancellationScope, sleep } from '@temporalio/workflow'
import { flush } from './activities.ts'
import { eventsOf, type Journal } from './journal.ts'

/** Between asking for a flush whose watermark nobody could read up to, and asking with a newer one. */
const STALE_PAUSE_MS = 2_000

/** The flushing of one execution. */
export interface Flushing {
  /** Sees to it that what is in the journal now gets flushed. */
  nudge(): void
  /** Resolves when everything in the journal is confirmed stored; at once if it is. Waits as long as the store is away. */
  drained(): Promise<void>
  /** Whether no flush is pending and all is stored. */
  isDrained(): boolean
}

/** Flushing of `journal`, of which `flushedSeq` is stored already. */
export function startFlushing(journal: Journal, flushedSeq: number): Flushing {
  let flushed = flushedSeq
  let wanted = flushedSeq
  let inFlight: Promise<void> | undefined

  async function flushWanted(): Promise<void> {
    while (flushed < wanted) {
      const { seq, stale } = await flush(eventsOf(journal))
      flushed = Math.max(flushed, seq)
      if (stale) await sleep(STALE_PAUSE_MS)
    }
  }

  function nudge(): void {
    wanted = journal.watermark().seq
    if (inFlight || flushed >= wanted) return
    inFlight = CancellationScope.nonCancellable(flushWanted).finally(() => {
      inFlight = undefined
    })
  }

  const isDrained = (): boolean => inFlight === undefined && flushed >= journal.watermark().seq

  return {
    nudge,
    isDrained,
    async drained() {
      while (!isDrained()) {
        nudge()
        await inFlight
      }
    },
  }
}
