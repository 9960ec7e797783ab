// What operators do with all sessions of a deployment: recover, restore rows, prune, erase.
import type { Client } from '@temporalio/client'
import type { Store } from '../../store/index.ts'
import { storeOr } from '../no-store.ts'
import { checkSession } from '../session/options.ts'
import { checkSessionId } from '../session/session-id.ts'
import { sessionHandle, type SessionParts } from '../session/session.ts'
import { erase } from './erasing.ts'
import { SessionNotFoundError } from '../errors.ts'
import { allExecutions, type Execution, listExecutions } from './executions.ts'
import { prune } from './pruning.ts'
import { type RebuiltSession, rebuilder } from './rebuild.ts'
import { recoverInBulk } from './recovering.ts'
import type { BulkRecoveryOptions, BulkRecoveryReport } from './recovery-options.ts'
import { concurrently } from '../../waiting/concurrently.ts'
import {
  checkRebuild,
  type EraseOptions,
  type EraseReport,
  type PruneOptions,
  type PruneReport,
  type RebuildOptions,
  type RebuildReport,
} from './upkeep-options.ts'

/** Operations for operators. All of them reject with `InvalidOptionError` and `StoreError` (`no_store`, `store_unavailable`, …). */
export interface Upkeep {
  /**
   * Recovers the sessions in `error` that match a filter, each as `session.recover` does, at a limited rate. A session that is refused or
   * does not answer is reported and does not stop the others. A session that was closed while in error is not found: recover it by its id.
   */
  recover(options: BulkRecoveryOptions): Promise<BulkRecoveryReport>
  /**
   * Restores rows of the side store from Temporal's histories, for example after a `DROP SCHEMA`: those of open sessions, and of closed
   * sessions that the namespace still retains. Needs a worker on their task queue. Existing rows stay unchanged, so it can be run at any
   * time and repeatedly. A session that cannot be restored is reported and does not stop the others; a store that is unavailable, or that was
   * never migrated, rejects at once.
   */
  rebuild(options?: RebuildOptions): Promise<RebuildReport>
  /** Prunes closed sessions: archives their messages and deletes everything else except a row with the session's numbers. */
  prune(options: PruneOptions): Promise<PruneReport>
  /**
   * Permanently deletes a session's content: its rows, its archive, and its histories in Temporal.
   * @throws SessionNotFoundError `session_not_found`; RequestRefusedError `session_open`; InvalidMessageError `invalid_session_id`.
   */
  erase(sessionId: string, options: EraseOptions): Promise<EraseReport>
}

/** How many sessions are restored concurrently. */
const AT_ONCE = 4
/** How many sessions an audit row names. */
const NAMED = 100

/** The operations on a deployment. */
export function upkeepOf(parts: SessionParts): Upkeep {
  return {
    recover: async (options) => recover(parts, storeOr(parts.store), options),
    rebuild: async (options) => rebuild(parts, storeOr(parts.store), options),
    prune: async (options) => prune(storeOr(parts.store), options),
    erase: async (sessionId, options) => erase(parts.client, storeOr(parts.store), sessionId, options),
  }
}

function recover(parts: SessionParts, { lists }: Store, options: BulkRecoveryOptions): Promise<BulkRecoveryReport> {
  const sessionOf = (id: string) => sessionHandle(parts, id, checkSession(), { isNew: false })
  return recoverInBulk({ find: (...page) => lists.inError(...page), recover: (id, how) => sessionOf(id).recover(how) }, options)
}

async function rebuild(
  { client, taskQueue: own }: SessionParts,
  store: Store,
  options: RebuildOptions | undefined,
): Promise<RebuildReport> {
  const { session: id, taskQueue = own, by, onSession, signal } = checkRebuild(options)
  const session = id === undefined ? undefined : checkSessionId(id)
  const known = session === undefined ? bySession(await listExecutions(client, { taskQueue })) : await alone(client, session)
  const { restore } = rebuilder(client, store, async (id) => known.get(id) ?? allExecutions(client, id))
  const report: RebuildReport = { sessions: 0, complete: 0, restored: 0, partial: 0, failed: 0, events: 0, incomplete: [], stopped: false }
  const note = async (): Promise<void> => {
    if (report.events === 0) return
    const { incomplete, ...sums } = report
    const details = { ...(session === undefined ? { taskQueue } : { session }), ...sums, incomplete: incomplete.slice(0, NAMED) }
    await store.upkeep.noteRebuild(by, details)
  }
  const restored = concurrently(known.keys(), AT_ONCE, async (id) => {
    if (signal?.aborted) {
      report.stopped = true
      return
    }
    const done = await restore(id)
    if (!done) return
    count(report, done)
    onSession?.(done)
  })
  await restored.catch(async (error: unknown) => {
    // What was restored stays, so it is recorded.
    report.stopped = true
    await note().catch(() => undefined)
    throw error
  })
  if (session !== undefined && report.sessions === 0 && !report.stopped) throw new SessionNotFoundError(session)
  await note()
  return report
}

async function alone(client: Client, sessionId: string): Promise<Map<string, Execution[]>> {
  const executions = await allExecutions(client, sessionId)
  if (executions.length === 0) throw new SessionNotFoundError(sessionId)
  return new Map([[sessionId, executions]])
}

/** Sessions with their executions, newest execution first. The oldest session comes first, so that sources come before their forks. */
function bySession(executions: readonly Execution[]): Map<string, Execution[]> {
  const sessions = new Map<string, Execution[]>()
  for (const execution of executions.toReversed()) {
    const known = sessions.get(execution.sessionId)
    if (known) known.unshift(execution)
    else sessions.set(execution.sessionId, [execution])
  }
  return sessions
}

function count(report: RebuildReport, session: RebuiltSession): void {
  report.sessions += 1
  report[session.outcome] += 1
  report.events += session.events
  if (session.outcome === 'partial' || session.outcome === 'failed') report.incomplete.push(session)
}
