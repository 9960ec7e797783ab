// Estimates from the events that pass through an orchestrator which executions it has cached. Its successor resets their stickiness.
import type { CachedExecution } from '../protocol.ts'

/** How many are remembered. For any other session, the next message waits two seconds, once. */
const MAX_CACHED = 200

/** An execution that produced events, and their last `seq`. */
export type HeardExecution = CachedExecution & { seq: number }

export interface CachedExecutions {
  note(execution: HeardExecution): void
  /** Most recent first. */
  newest(): CachedExecution[]
}

export function cachedExecutions(): CachedExecutions {
  /** By workflow, the most recent at the end. */
  const heard = new Map<string, HeardExecution>()

  return {
    note(execution) {
      const { workflowId, executionId, seq } = execution
      const known = heard.get(workflowId)
      // Queries of the past replay ended executions. Only the next task of the newest execution can wait for a dead orchestrator.
      if (known && known.executionId !== executionId && seq < known.seq) return
      heard.delete(workflowId)
      heard.set(workflowId, { workflowId, executionId, seq: Math.max(seq, known?.seq ?? 0) })
      const [oldest] = heard.keys()
      if (heard.size > MAX_CACHED && oldest !== undefined) heard.delete(oldest)
    },
    newest: () => [...heard.values()].toReversed().map(({ workflowId, executionId }) => ({ workflowId, executionId })),
  }
}
