// Continue-as-new: early, because recovery from a crash includes a replay; clean, because pending activities would be lost.
import { condition, continueAsNew, patched, workflowInfo } from '@temporalio/workflow'
import type { Watermark } from '../session/events.ts'
import { copyOf, jsonBytes } from '../session/json.ts'
import { type Closing, CORE_VERSION, type HistorySize, sessionIdOf, type SessionStart } from '../session/protocol/protocol.ts'
import { snapshotOf } from '../session/fold/snapshot.ts'
import type { Start } from '../session/protocol/start.ts'
import type { SessionState } from '../session/state.ts'
import type { Flushing } from './flushing.ts'
import type { Journal } from './journal.ts'
import { answeredRequests } from './requests/answered.ts'
import { requestsFinished } from './requests/passed-on.ts'
import type { LateResults } from './calls/late-results.ts'
import type { Stopping } from './stopping.ts'
import { defined } from '../session/defined.ts'

/** When continue-as-new is due. Replay takes about 0.2 ms per event, so this bounds the time of a recovery. */
const DUE: HistorySize = { events: 1_000, bytes: 4_000_000 }
/** How long a turn may be delayed by the flush before continue-as-new; after that, the session proceeds and retries later. */
const PATIENCE_MS = 2_000
/** pawl tries again when the history has grown by this fraction of the size at which continue-as-new is due. */
const BETWEEN_TRIES = 0.5
/** At this multiple of that size, the session waits for the store without a time limit. The server's limits are 51,200 events and 50 MB. */
const HARD_LIMIT_FACTOR = { events: 40, bytes: 10 }
/** Events that arrive during the last flush are carried alongside the snapshot, up to this many bytes of JSON. */
const MAX_TAIL_BYTES = 256_000
const MAX_INHERITED_BYTES = 1_300_000

export interface Continuing {
  /** Whether continue-as-new is due. */
  isDue(): boolean
  /** Between turns: continues as new once the store has all events. Returns if that is not possible now; the caller then decides again. */
  attempt(): Promise<void>
}

export interface ContinuingNeeds {
  start: Start
  journal: Journal
  flushing: Flushing
  stopping: Stopping
  closing(): Closing | undefined
  /** What the session has inherited but not yet used. */
  inherited(): readonly unknown[]
  late: Pick<LateResults, 'areKept'>
  /** Whether a message to another session is being delivered. */
  isTelling(): boolean
  /** Whether the next execution would not know of a session that has yet to be stopped. */
  mustStop(): boolean
}

/** A session at one moment. */
interface Snapshot {
  state: SessionState
  at: Watermark
}

export function startContinuing({
  start,
  journal,
  flushing,
  stopping,
  closing,
  inherited,
  late,
  isTelling,
  mustStop,
}: ContinuingNeeds): Continuing {
  const { events: dueEvents = DUE.events, bytes: dueBytes = DUE.bytes } = start.settings?.history ?? {}
  let triedAt = 0
  let sized = { count: 0, bytes: 0 }
  /** How far the store had got when the last try failed. Until it advances, it counts as unavailable and no turn waits for it. */
  let storedThen: number | undefined

  return {
    isDue() {
      const { historyLength, historySize } = workflowInfo()
      // The next step of this execution handles a pending stop, and this execution must answer rollbacks, forks and decisions in progress.
      if (!requestsFinished() || inheritsTooMuch()) return false
      if ((historyLength < dueEvents && historySize < dueBytes) || stopping.isComing() || late.areKept()) return false
      // What is being told may itself wait for the store.
      if (isTelling()) return mustWait() && !flushing.isDrained() && patched('full-while-telling')
      if (mustWait() || flushing.isDrained() || triedAt === 0) return true
      if (storedThen !== undefined && flushing.storedSeq() <= storedThen) return false
      return historyLength >= triedAt + BETWEEN_TRIES * dueEvents
    },
    async attempt() {
      triedAt = workflowInfo().historyLength
      if ((await continueIfStored(PATIENCE_MS)) || !mustWait()) return
      const recovered = enterError()
      await stored()
      recovered()
      await continueIfStored()
    },
  }

  /** An execution's argument is limited to 2 MB. The inherited answers are used up as the run proceeds. */
  function inheritsTooMuch(): boolean {
    const left = inherited()
    if (left.length !== sized.count) sized = { count: left.length, bytes: jsonBytes(left) }
    return sized.count > 0 && sized.bytes > MAX_INHERITED_BYTES
  }

  function mustWait(): boolean {
    const { historyLength, historySize } = workflowInfo()
    return historyLength >= HARD_LIMIT_FACTOR.events * dueEvents || historySize >= HARD_LIMIT_FACTOR.bytes * dueBytes
  }

  /** Continues as new once the store has the current events. If it cannot continue, returns whether the store has them. */
  async function continueIfStored(patienceMs?: number): Promise<boolean> {
    const snapshot = { state: copyOf(snapshotOf(journal.state)), at: journal.watermark() }
    const held = flushing.hold()
    if (patienceMs === undefined) await condition(held.isStored)
    else await condition(held.isStored, patienceMs)
    const isStored = held.isStored()
    storedThen = isStored ? undefined : flushing.storedSeq()
    if (isStored) await continueIfClean(snapshot)
    held.release()
    return isStored
  }

  async function stored(): Promise<void> {
    const held = flushing.hold()
    await condition(held.isStored)
    held.release()
  }

  /** Marks the session as waiting for the store. Returns the function that ends the wait. */
  function enterError(): () => void {
    // The session already waits for something else.
    if (journal.state.status === 'error') return () => undefined
    const run = journal.state.current?.run
    const about = { strategy: 'automatic', ...defined({ run }) } as const
    const reason = 'The history is full and the side store cannot be reached: the session continues by itself when the store is back.'
    journal.append({ type: 'error_entered', code: 'archive_unavailable', reason, ...about })
    return () => journal.append({ type: 'recovery_ended', ...about })
  }

  /** There is no await between this check and the call, so later events are carried over or this execution proceeds. */
  function continueIfClean({ state, at }: Snapshot): Promise<never> | undefined {
    if (!requestsFinished() || stopping.isComing() || late.areKept() || isTelling()) return undefined
    if (mustStop() && patched('stops-before-continuing')) return undefined
    const tail = journal.since(at.seq)
    if (jsonBytes(tail) > MAX_TAIL_BYTES) return undefined
    const { settings } = start
    const { workflowId, runId } = workflowInfo()
    const wanted = closing()
    const left = inherited()
    const answered = answeredRequests()
    return continueAsNew<(next: SessionStart) => Promise<void>>({
      sessionId: sessionIdOf(workflowId),
      ...(settings && { settings }),
      carried: {
        // A running session switches to a newer core only here.
        coreVersion: CORE_VERSION,
        state,
        digest: at.digest,
        ...(tail.length > 0 && { tail }),
        previous: runId,
        ...(wanted && { closing: wanted }),
        ...(left.length > 0 && { inherited: [...left] }),
        ...(answered.length > 0 && { answered }),
      },
    })
  }
}
