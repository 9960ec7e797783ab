// Estimates which executions an orchestrator has cached, from the events that pass through it. Its successor resets their stickiness.
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

/** Starts with none. */
export function cachedExecutions(): CachedExecutions {
  /** By workflow, the most recent at the end. */
  const heard = new Map<string, HeardExecution>()

  return {
    note(execution) {
      const { workflowId, executionId, seq } = execution
      const known = heard.get(workflowId)
      // Ended executions are replayed when their past is queried; only the newest execution's next task can wait for a dead cache.
      if (known && known.executionId !== executionId && seq < known.seq) return
      heard.delete(workflowId)
      heard.set(workflowId, { workflowId, executionId, seq: Math.max(seq, known?.seq ?? 0) })
      const [oldest] = heard.keys()
      if (heard.size > MAX_CACHED && oldest !== undefined) heard.delete(oldest)
    },
    newest: () => [...heard.values()].toReversed().map(({ workflowId, executionId }) => ({ workflowId, executionId })),
  }
}
