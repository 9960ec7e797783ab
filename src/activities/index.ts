// The activities of a worker process.
import { Context } from '@temporalio/activity'
import type { SessionEvent } from '../session/events.ts'
import { fold } from '../session/fold.ts'
import { sessionIdOf } from '../session/protocol.ts'
import { beating } from './beating.ts'
import { callModelActivity } from './call-model.ts'
import type { FlushInput, FlushResult, LoadSessionResult, PawlActivities } from './contract.ts'
import { executeToolActivity } from './execute-tool.ts'
import { findPlaceActivity } from './find-place.ts'
import { type Flusher, startFlusher } from './flusher.ts'
import { loadForkActivity } from './load-fork.ts'
import type { ActivityNeeds } from './needs.ts'
import { checkAnswerActivity, resolveToolActivity } from './outside.ts'
import { sessionReader } from './session-reader.ts'
import { verifyToolActivity } from './verify-tool.ts'

/** The activities over `needs`, and the flusher behind them. */
export function createActivities(needs: ActivityNeeds): { activities: PawlActivities; flusher: Flusher } {
  const { store } = needs
  const reader = sessionReader(needs.log, store)
  const flusher = startFlusher(store, reader, needs.logger)

  async function flush({ epoch, watermark }: FlushInput): Promise<FlushResult> {
    const { client, info } = Context.current()
    const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
    return { seq: await beating(() => flusher.flush({ sessionId: sessionIdOf(workflowId), epoch, executionId, watermark }, client)) }
  }

  function loadSession(): Promise<LoadSessionResult> {
    return beating(loadStored)
  }

  async function loadStored(): Promise<LoadSessionResult> {
    const sessionId = sessionIdOf(Context.current().info.workflowExecution?.workflowId ?? '')
    const head = await store.head(sessionId)
    if (!head || head.seq === 0) return { found: false }
    let state: ReturnType<typeof fold>
    for (let after = 0; after < head.seq; ) {
      const page = await store.entries(sessionId, { after, limit: 1_000 })
      const last = page.at(-1)
      if (!last) break
      state = fold(
        state,
        page.map((entry) => JSON.parse(entry.json) as SessionEvent),
      )
      after = last.seq
    }
    return state ? { found: true, state, digest: head.digest } : { found: false }
  }

  return {
    activities: {
      callModel: callModelActivity(needs, reader, flusher),
      executeTool: executeToolActivity(needs, flusher),
      verifyTool: verifyToolActivity(needs),
      flush,
      loadSession,
      loadFork: loadForkActivity(store),
      findPlace: findPlaceActivity(reader),
      resolveTool: resolveToolActivity(needs),
      checkAnswer: checkAnswerActivity(needs),
    },
    flusher,
  }
}
