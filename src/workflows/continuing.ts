// Continue-as-new: early, because a crash waits for a replay; clean, because an activity that is pending at the call is lost.
import { allHandlersFinished, condition, continueAsNew, workflowInfo } from '@temporalio/workflow'
import { CORE_VERSION, type SessionStart } from '../session/protocol.ts'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'

/** Replay costs about 0.2 ms an event: this bounds what a crash costs. */
const EVENTS_DUE = 1_000
const BYTES_DUE = 4_000_000
/** How long a turn may be held up for the flush that must come first, before the session goes on and tries again later. */
const PATIENCE_MS = 2_000
const EVENTS_BETWEEN_TRIES = 500
/** Here it waits for the store, however long. The server's limits are 51,200 events and 50 MB. */
const EVENTS_AT_MOST = 40_000
const BYTES_AT_MOST = 40_000_000

/** The continuing of one execution. */
export interface Continuing {
  /** Between turns: goes on in a new execution if one is due and the store has everything. */
  whenDue(): Promise<void>
}

/** The continuing of the execution that `start` started. */
export function startContinuing(start: SessionStart, journal: Journal, flushing: Flushing): Continuing {
  let triedAt = 0

  return {
    async whenDue() {
      const { historyLength, historySize } = workflowInfo()
      if (historyLength < EVENTS_DUE && historySize < BYTES_DUE) return
      const mustWait = historyLength >= EVENTS_AT_MOST || historySize >= BYTES_AT_MOST
      if (!mustWait && triedAt > 0 && historyLength < triedAt + EVENTS_BETWEEN_TRIES) return
      triedAt = historyLength
      if (mustWait) await waitForStore()
      else await stored(PATIENCE_MS)
      await continueIfClean()
    },
  }

  /** Whether everything was stored in time. */
  async function stored(patienceMs: number): Promise<boolean> {
    void flushing.drained()
    return condition(() => flushing.isDrained(), patienceMs)
  }

  async function waitForStore(): Promise<void> {
    if (await stored(PATIENCE_MS)) return
    const run = journal.state.current?.run
    const about = { strategy: 'automatic', ...(run !== undefined && { run }) } as const
    const reason = 'The history is full and the side store cannot be reached: the session goes on by itself when it is back.'
    journal.append({ type: 'error_entered', code: 'archive_unavailable', reason, ...about })
    await flushing.drained()
    journal.append({ type: 'recovery_ended', ...about })
    await flushing.drained()
  }

  /** There is no await between this check and the call: what came meanwhile is in the snapshot and stored, or we go on here. */
  function continueIfClean(): Promise<never> | undefined {
    if (!flushing.isDrained() || !allHandlersFinished()) return undefined
    const { sessionId, settings, carried } = start
    return continueAsNew<(next: SessionStart) => Promise<void>>({
      sessionId,
      ...(settings && { settings }),
      carried: {
        coreVersion: carried?.coreVersion ?? CORE_VERSION,
        state: journal.state,
        digest: journal.watermark().digest,
        previous: workflowInfo().runId,
      },
    })
  }
}
