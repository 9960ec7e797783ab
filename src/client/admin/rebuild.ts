// Restores the store's rows from the histories that Temporal still has: session by session, each from its oldest execution on.
import type { Client } from '@temporalio/client'
import { blobOf } from '../../session/blobs.ts'
import type { LogEntry, SessionEvent, Watermark } from '../../session/events.ts'
import { entriesOf } from '../../session/protocol/pages.ts'
import type { EventsPage, ForkStart } from '../../session/protocol/protocol.ts'
import { failsAllSessions, isErased } from '../../store/errors.ts'
import { type AdoptedState, type MissingValue, type Store, StoreError, type StoredHead } from '../../store/index.ts'
import { beginningOf, type Execution, holds, NoWorker, eventsHeldBy } from './executions.ts'

/** A range of events that could not be restored, both ends included. */
export interface MissingEvents {
  /** The first one. */
  fromSeq: number
  /** The last one. */
  toSeq: number
}

/** The outcome for one session's rows. */
export interface RebuiltSession {
  /** The session's id. */
  sessionId: string
  /**
   * `complete`: no rows were missing · `restored`: all missing rows were restored · `partial`: `missing` or `missingValues` could not be
   * restored · `failed`: see `error`; what was restored before the failure is kept.
   */
  outcome: 'complete' | 'restored' | 'partial' | 'failed'
  /** How many events this rebuild restored. */
  events: number
  /** `seq` of the last event that is now stored. */
  upTo: number
  /** Events that neither the store nor Temporal still has. */
  missing: MissingEvents[]
  /** Large values that only the store had. Their events are restored, each with the beginning of its value. */
  missingValues: MissingValue[]
  /** Why it failed. */
  error?: { code: string; message: string }
}

/** Executions of one session, newest first. */
export type Executions = readonly Execution[]

export interface Rebuilder {
  /**
   * Restores one session; further calls for the same session return the first outcome. Rejects only with errors that would stop every
   * session. Undefined if the session has no events, because it was only requested.
   */
  restore(sessionId: string): Promise<RebuiltSession | undefined>
}

/** A part of the session's past: the events after `base`, up to `upTo` (absent: all), of one execution. */
interface Link {
  execution: Execution
  base: Watermark
  upTo?: Watermark
}

/** The session cannot be restored any further. */
class Unrestorable extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** After this many sessions in a row without an answer, the task queue counts as having no worker. */
const SILENCES = 2

/** Creates a rebuilder. `executionsOf` is also called for the sessions that forks were made from. */
export function rebuilder(client: Client, store: Store, executionsOf: (sessionId: string) => Promise<Executions>): Rebuilder {
  const restoring = new Map<string, Promise<RebuiltSession | undefined>>()
  const silences = new Map<string, number>()

  function restore(sessionId: string): Promise<RebuiltSession | undefined> {
    const known = restoring.get(sessionId)
    if (known) return known
    const started = restoreNow(sessionId)
    restoring.set(sessionId, started)
    return started
  }

  async function restoreNow(sessionId: string): Promise<RebuiltSession | undefined> {
    const done: RebuiltSession = { sessionId, outcome: 'complete', events: 0, upTo: 0, missing: [], missingValues: [] }
    try {
      await restoreRows(done, await executionsOf(sessionId))
      if (done.upTo === 0) return undefined
      const origin = await store.upkeep.origin(sessionId)
      if (origin > 0) done.missing.push({ fromSeq: 1, toSeq: origin })
      if (done.missing.length + done.missingValues.length > 0) done.outcome = 'partial'
      else if (done.events > 0) done.outcome = 'restored'
    } catch (error) {
      // The history of an erased session outlives its rows by a few moments; there is nothing to restore.
      if (isErased(error)) return done
      if (failsAllSessions(error)) throw error
      done.outcome = 'failed'
      done.error = problemOf(error)
    }
    return done
  }

  async function restoreRows(done: RebuiltSession, executions: Executions): Promise<void> {
    const { sessionId } = done
    let head = await store.head(sessionId)
    const stored = head?.seq ?? 0
    const links = await linksAbove(stored, executions)
    const [oldest] = links
    if (oldest && oldest.base.seq > stored) head = await beginInTheMiddle(done, oldest, head)
    for (const link of links) head = await restoreLink(done, link, head)
    done.upTo = head?.seq ?? 0
    // Also of events that an earlier rebuild has restored.
    done.missingValues = await store.upkeep.missingValues(sessionId)
  }

  /** The links that hold the events after `stored`, oldest first. Leaves out executions whose past differs from the newest one's. */
  async function linksAbove(stored: number, executions: Executions): Promise<Link[]> {
    const links: Link[] = []
    let wanted: Watermark | undefined
    for (const execution of executions) {
      if (wanted && wanted.seq <= stored) break
      const page = await ask(execution, wanted ? { after: Math.max(0, wanted.seq - 1), maxBytes: 1 } : { after: Number.MAX_SAFE_INTEGER })
      if (!page || (wanted && !holds(page, wanted))) continue
      links.unshift({ execution, base: page.base, ...(wanted && { upTo: wanted }) })
      wanted = page.base
    }
    return links
  }

  async function restoreLink(done: RebuiltSession, { execution, base, upTo }: Link, from: StoredHead | null): Promise<StoredHead | null> {
    let head = from
    for (let after = Math.max(base.seq, head?.seq ?? 0); ; ) {
      const page = await ask(execution, { after })
      if (!page) throw new Unrestorable('history_gone', `Execution ${execution.executionId} was deleted during the rebuild. Run it again.`)
      const entries = entriesOf(page).filter((entry) => !upTo || entry.seq <= upTo.seq)
      const last = entries.at(-1)
      if (!last) return head
      const before = head?.seq ?? 0
      head = await store.flush(done.sessionId, page.epoch, entries, { executionId: execution.executionId })
      done.events += Math.min(last.seq, head.seq) - Math.min(last.seq, before)
      after = Math.max(last.seq, head.seq)
      if (!page.more || (upTo && after >= upTo.seq)) return head
    }
  }

  /** Temporal does not have the events before the oldest link: they are another session's past, or they are lost. */
  async function beginInTheMiddle(done: RebuiltSession, { execution, base }: Link, stored: StoredHead | null): Promise<StoredHead | null> {
    const { sessionId } = done
    const page = await ask(execution, { after: base.seq, maxBytes: 1 })
    const beginning = await beginningOf(client, sessionId, execution.executionId)
    if (!page || !beginning) throw new Unrestorable('history_gone', 'Its executions were deleted during the rebuild. Run it again.')
    const { fork } = beginning.start
    if (fork && (await canCopy(fork))) return copyPast(done, stored ?? { epoch: page.epoch, seq: 0, digest: '' }, fork)
    if (stored) {
      done.upTo = stored.seq
      done.missing.push({ fromSeq: stored.seq + 1, toSeq: base.seq })
      throw new Unrestorable(
        'history_gone',
        `The store ends at event ${stored.seq}, and Temporal has only the events after ${base.seq}. Restore a newer backup of the store.`,
      )
    }
    // The session started anew; its first event says after which event.
    if (page.events[0]?.type === 'session_started') return null
    const adopted = adoptable(page, beginning.snapshot)
    if (!adopted || adopted.state.seq !== base.seq || adopted.digest !== base.digest) {
      throw new Unrestorable('no_snapshot', `Temporal's history begins after event ${base.seq} and has no valid snapshot of that state.`)
    }
    return store.upkeep.adopt(sessionId, adopted)
  }

  /** Whether the store has the whole past that the fork was made from; restores it first if necessary. */
  async function canCopy({ from, seq, digest }: ForkStart): Promise<boolean> {
    const source = await store.head(from)
    if (!source || source.seq < seq) await restore(from)
    const [first] = await store.entries(from, { limit: 1 })
    const [last] = await store.entries(from, { after: seq - 1, limit: 1 })
    return first?.seq === 1 && last?.seq === seq && last.digest === digest
  }

  async function copyPast(done: RebuiltSession, stored: StoredHead, { from, seq }: ForkStart): Promise<StoredHead> {
    const { sessionId } = done
    const gone = (): Unrestorable =>
      new Unrestorable('history_gone', `The events of "${from}" were deleted in the meantime. Rebuild again.`)
    const write = (entries: readonly LogEntry[], epoch: string): Promise<StoredHead> =>
      store.flush(sessionId, epoch, entries, { inherited: from }).catch(async (error: unknown) => {
        // Either the fork itself was erased, or the session that it was made from.
        throw isErased(error) && !(await store.lists.erasure(sessionId)) ? gone() : error
      })
    let head = stored
    while (head.seq < seq) {
      const page = (await store.entries(from, { after: head.seq })).filter((entry) => entry.seq <= seq)
      // An erasure of the other session names only sessions that have a row. The first event has no large value.
      const entries = head.seq === 0 ? page.slice(0, 1) : page
      if (entries.length === 0) throw gone()
      const inherited = entries.flatMap(({ json }) => blobOf(JSON.parse(json) as SessionEvent) ?? [])
      // Before the events: a rebuild that is killed in between continues after the stored events.
      await store.blobs.copy(
        from,
        sessionId,
        inherited.map(({ sha256 }) => sha256),
        head.epoch,
      )
      head = await write(entries, head.epoch)
      done.events += entries.length
      done.upTo = head.seq
    }
    return head
  }

  /** A task queue without a worker is queried only `SILENCES` times, not once for each of its sessions. */
  async function ask(execution: Execution, query: { after: number; maxBytes?: number }): Promise<EventsPage | undefined> {
    const { taskQueue } = execution
    const silent = silences.get(taskQueue) ?? 0
    if (silent >= SILENCES) throw noWorker(taskQueue)
    try {
      const page = await eventsHeldBy(client, execution, query)
      silences.set(taskQueue, 0)
      return page
    } catch (error) {
      if (!(error instanceof NoWorker)) throw error
      silences.set(taskQueue, silent + 1)
      throw noWorker(taskQueue)
    }
  }

  return { restore }
}

/** The state that the execution continued from. */
function adoptable({ epoch, events: [first] }: EventsPage, snapshot: Omit<AdoptedState, 'epoch'> | undefined): AdoptedState | undefined {
  if (!snapshot) return undefined
  // A resumed session begins a new chain on top of what the previous chain had written.
  return { epoch: first?.type === 'session_resumed' ? first.fromEpoch : epoch, ...snapshot }
}

function noWorker(taskQueue: string): Unrestorable {
  return new Unrestorable('no_worker', `No worker on task queue "${taskQueue}" answered. Start one and rebuild again.`)
}

function problemOf(error: unknown): { code: string; message: string } {
  if (error instanceof Unrestorable || error instanceof StoreError) return { code: error.code, message: error.message }
  return { code: 'rebuild_failed', message: error instanceof Error ? error.message : String(error) }
}
