// Continue-as-new: early, because a crash waits for a replay; clean, because an activity that is pending at the call is lost.
import { allHandlersFinished, condition, continueAsNew, workflowInfo } from '@temporalio/workflow'
import { type Closing, CORE_VERSION, jsonBytes, type SessionStart } from '../session/protocol.ts'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'
import type { Stopping } from './stopping.ts'

/** Replay costs about 0.2 ms an event: this bounds what a crash costs. */
const EVENTS_DUE = 1_000
const BYTES_DUE = 4_000_000
/** How long a turn may be held up for the flush that must come first, before the session goes on and tries again later. */
const PATIENCE_MS = 2_000
const EVENTS_BETWEEN_TRIES = 500
/** Here it waits for the store, however long. The server's limits are 51,200 events and 50 MB. */
const EVENTS_AT_MOST = 40_000
const BYTES_AT_MOST = 40_000_000
/** The server's limit for what is carried over is 2 MB. */
const SNAPSHOT_AT_MOST = 1_800_000

/** The continuing of one execution. */
export interface Continuing {
  /** Whether it is time to go on in a new execution. */
  isDue(): boolean
  /** Between turns: goes on in a new execution once the store has everything. Returns if that is not to be; then decide anew. */
  attempt(): Promise<void>
}

/** What is continued. */
export interface Continued {
  start: SessionStart
  journal: Journal
  flushing: Flushing
  stopping: Stopping
  closing(): Closing | undefined
}

/** The continuing of one execution. */
export function startContinuing({ start, journal, flushing, stopping, closing }: Continued): Continuing {
  let triedAt = 0
  let tooLargeAt: number | undefined

  return {
    isDue() {
      const { historyLength, historySize } = workflowInfo()
      // A stop is answered by the next step, here; and whoever moves the session or decides on a call has to be answered here too.
      if (!allHandlersFinished()) return false
      if (tooLargeAt !== undefined && historyLength < tooLargeAt + EVENTS_BETWEEN_TRIES) return false
      if ((historyLength < EVENTS_DUE && historySize < BYTES_DUE) || stopping.isRequested()) return false
      return mustWait() || flushing.isDrained() || triedAt === 0 || historyLength >= triedAt + EVENTS_BETWEEN_TRIES
    },
    async attempt() {
      triedAt = workflowInfo().historyLength
      if (mustWait()) await waitForStore()
      else await stored(PATIENCE_MS)
      await continueIfClean()
    },
  }

  function mustWait(): boolean {
    const { historyLength, historySize } = workflowInfo()
    return historyLength >= EVENTS_AT_MOST || historySize >= BYTES_AT_MOST
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
    if (!flushing.isDrained() || !allHandlersFinished() || stopping.isRequested()) return undefined
    // The arguments of calls that wait for somebody are in it: once they have ended it is small again.
    tooLargeAt = jsonBytes(journal.state) > SNAPSHOT_AT_MOST ? workflowInfo().historyLength : undefined
    if (tooLargeAt !== undefined) return undefined
    const { sessionId, settings } = start
    const wanted = closing()
    return continueAsNew<(next: SessionStart) => Promise<void>>({
      sessionId,
      ...(settings && { settings }),
      carried: {
        // Here, and only here, a running session gets to know of a newer core.
        coreVersion: CORE_VERSION,
        state: journal.state,
        digest: journal.watermark().digest,
        previous: workflowInfo().runId,
        ...(wanted && { closing: wanted }),
      },
    })
  }
}
