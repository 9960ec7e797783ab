// The activities of an orchestrator.
import { Context } from '@temporalio/activity'
import { StaleWatermark } from '../calls/errors.ts'
import { readTarget } from '../calls/reads.ts'
import { defined } from '../session/defined.ts'
import { isForeignPast, StoreError } from '../store/errors.ts'
import { heartbeating } from './heartbeating.ts'
import type { FlushInput, FlushResult, PawlActivities } from '../calls/activities.ts'
import { agentCallActivities } from './agent-calls.ts'
import { currentSession } from './current-session.ts'
import { findActivities } from './finding.ts'
import type { Flusher } from './flusher.ts'
import { loadCallsActivity } from './load-calls.ts'
import { loadForkActivity } from './load-fork.ts'
import { loadSessionActivity } from './load-session.ts'
import type { ActivityNeeds } from './needs.ts'
import { releaseWaitingActivity } from './release-waiting.ts'
import { useContextRuleActivity } from './use-context-rule.ts'
import { userCodeActivities } from './user-code.ts'
import { sendOccurrenceActivity } from './send-occurrence.ts'
import type { SessionReader } from './session-reader.ts'

/** The query may be answered from a rejected task on this worker, which would be wrong. Another worker may have the right answer. */
const STALE_TRIES = 3

/** Workers of an earlier build may still be running and have the events. */
const UNREADABLE_TRIES = 6

/** Well within the activity's timeout. Events stored by then count, and the workflow schedules another flush for the rest. */
const FLUSH_MS = 30_000

export function createActivities(needs: ActivityNeeds, reader: SessionReader, flusher: Flusher): PawlActivities {
  const { store } = needs

  async function flush(input: FlushInput): Promise<FlushResult> {
    const { isNew } = input
    const { client, ...session } = currentSession()
    const target = { ...readTarget(session, input), ...defined({ isNew }) }
    try {
      return { seq: await heartbeating(() => flusher.flush(target, client, FLUSH_MS)) }
    } catch (error) {
      // A retry with the same watermark could fail forever, and the workflow has a newer one.
      if (error instanceof StaleWatermark && Context.current().info.attempt >= STALE_TRIES) return { seq: 0, stale: true }
      // If no worker can replay the workflow, only a workflow task shows that. A workflow that can be replayed flushes again.
      if (!(error instanceof StoreError) && Context.current().info.attempt >= UNREADABLE_TRIES) return { seq: 0, stale: true }
      // A retry would not help. The workflow loads the existing session instead.
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
    ...agentCallActivities(needs, reader),
    useContextRule: useContextRuleActivity(needs),
    releaseWaiting: releaseWaitingActivity(needs),
    sendOccurrence: sendOccurrenceActivity(needs.client),
    ...findActivities(reader),
  }
}
