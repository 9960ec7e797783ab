// The activities of an orchestrator.
import { Context } from '@temporalio/activity'
import { StaleWatermark } from '../calls/errors.ts'
import { defined } from '../session/defined.ts'
import { isForeignPast } from '../store/errors.ts'
import { heartbeating } from './heartbeating.ts'
import type { FlushInput, FlushResult, PawlActivities } from '../calls/activities.ts'
import { currentSession } from './current-session.ts'
import { findActivities } from './finding.ts'
import type { Flusher } from './flusher.ts'
import { loadCallsActivity } from './load-calls.ts'
import { loadForkActivity } from './load-fork.ts'
import { loadSessionActivity } from './load-session.ts'
import type { ActivityNeeds } from './needs.ts'
import { userCodeActivities } from './proxies.ts'
import type { SessionReader } from './session-reader.ts'

/** The answer may come from a rejected task on this worker, so it may be wrong; another worker may have the right one. */
const STALE_TRIES = 3

/** Well within the activity's timeout: events stored by then count, and the workflow schedules another flush for the others. */
const FLUSH_MS = 30_000

/** The activities over `needs`. */
export function createActivities(needs: ActivityNeeds, reader: SessionReader, flusher: Flusher): PawlActivities {
  const { store } = needs

  async function flush({ epoch, watermark, origin, isNew }: FlushInput): Promise<FlushResult> {
    const { client, sessionId, executionId } = currentSession()
    const target = { sessionId, epoch, executionId, watermark, ...defined({ origin, isNew }) }
    try {
      return { seq: await heartbeating(() => flusher.flush(target, client, FLUSH_MS)) }
    } catch (error) {
      // With the same watermark, a retry could fail forever; the workflow has a newer one.
      if (error instanceof StaleWatermark && Context.current().info.attempt >= STALE_TRIES) return { seq: 0, stale: true }
      // No retry changes that: the workflow finds the session that is there.
      if (isNew && isForeignPast(error)) return { seq: 0, foreign: true }
      throw error
    }
  }

  return {
    ...userCodeActivities(needs, flusher),
    flush,
    loadSession: loadSessionActivity(needs, reader),
    loadCalls: loadCallsActivity(store),
    loadFork: loadForkActivity(store),
    ...findActivities(reader),
  }
}
