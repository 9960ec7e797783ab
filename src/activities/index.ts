// The activities of a worker process.
import { Context } from '@temporalio/activity'
import { sessionIdOf } from '../session/protocol.ts'
import { beating } from './beating.ts'
import { blobShelf } from './blobs.ts'
import { callModelActivity } from './call-model.ts'
import type { FlushInput, FlushResult, PawlActivities } from './contract.ts'
import { StaleWatermark } from './errors.ts'
import { executeToolActivity } from './execute-tool.ts'
import { findPlaceActivity } from './find-place.ts'
import { type Flusher, startFlusher } from './flusher.ts'
import { loadCallsActivity } from './load-calls.ts'
import { loadForkActivity } from './load-fork.ts'
import { loadSessionActivity } from './load-session.ts'
import type { ActivityNeeds } from './needs.ts'
import { checkAnswerActivity, resolveToolActivity } from './outside.ts'
import { sessionReader } from './session-reader.ts'
import { verifyToolActivity } from './verify-tool.ts'

/** A worker whose execution was a task that was rejected says what it should not; the next one may know better. */
const STALE_TRIES = 3

/** The activities over `needs`, and the flusher behind them. */
export function createActivities(needs: ActivityNeeds): { activities: PawlActivities; flusher: Flusher } {
  const { store } = needs
  const shelf = blobShelf(store, needs.logger)
  const reader = sessionReader(needs.log, store, shelf)
  const flusher = startFlusher(store, reader, needs.logger)

  async function flush({ epoch, watermark, origin }: FlushInput): Promise<FlushResult> {
    const { client, info } = Context.current()
    const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
    const target = { sessionId: sessionIdOf(workflowId), epoch, executionId, watermark, ...(origin && { origin }) }
    try {
      return { seq: await beating(() => flusher.flush(target, client)) }
    } catch (error) {
      // Tried again with the same watermark it could fail for ever; the workflow has a newer one.
      if (error instanceof StaleWatermark && info.attempt >= STALE_TRIES) return { seq: 0, stale: true }
      throw error
    }
  }

  return {
    activities: {
      callModel: callModelActivity(needs, reader, flusher),
      executeTool: executeToolActivity(needs, flusher, shelf),
      verifyTool: verifyToolActivity(needs, shelf),
      flush,
      loadSession: loadSessionActivity(needs, reader),
      loadCalls: loadCallsActivity(store),
      loadFork: loadForkActivity(store),
      findPlace: findPlaceActivity(reader),
      resolveTool: resolveToolActivity(needs, reader),
      checkAnswer: checkAnswerActivity(needs, shelf),
    },
    flusher,
  }
}
