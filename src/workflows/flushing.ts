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
  /** Up to where everything is confirmed stored. */
  storedSeq(): number
  /** Has what is in the journal now stored, and begins no other flush until it is released: a steady stream would always have one. */
  hold(): Held
}

/** Flushes held back. */
export interface Held {
  /** Whether no flush is pending and what was in the journal is stored. */
  isStored(): boolean
  release(): void
}

/** Flushing of `journal`, of which `flushedSeq` is stored already. */
export function startFlushing(journal: Journal, flushedSeq: number): Flushing {
  let flushed = flushedSeq
  let wanted = flushedSeq
  let inFlight: Promise<void> | undefined
  let holds = 0

  async function flushWanted(): Promise<void> {
    while (flushed < wanted) {
      const { seq, stale } = await flush(eventsOf(journal))
      flushed = Math.max(flushed, seq)
      if (stale) await sleep(STALE_PAUSE_MS)
    }
  }

  function nudge(): void {
    if (holds > 0) return
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
    storedSeq: () => flushed,
    async drained() {
      while (!isDrained()) {
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
