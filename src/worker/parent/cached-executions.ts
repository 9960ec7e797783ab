// Which executions an orchestrator is taken to have cached, from the events that pass through it: its successor lets any worker have them.
import type { CachedExecution } from '../protocol.ts'

/** A new orchestrator releases the newest ones; the next message of any other session waits two seconds, once. */
const MOST_CACHED = 200

/** An execution that made events, and how far they go. */
export type HeardExecution = CachedExecution & { seq: number }

/** The executions. */
export interface CachedExecutions {
  note(execution: HeardExecution): void
  /** The one heard of last comes first. */
  newest(): CachedExecution[]
}

/** None yet. */
export function cachedExecutions(): CachedExecutions {
  /** By workflow, the one heard of last at the end. */
  const heard = new Map<string, HeardExecution>()

  return {
    note(execution) {
      const { workflowId, executionId, seq } = execution
      const known = heard.get(workflowId)
      // An execution that has ended is replayed when its past is asked for; only the newest one's next task can wait for a dead cache.
      if (known && known.executionId !== executionId && seq < known.seq) return
      heard.delete(workflowId)
      heard.set(workflowId, { workflowId, executionId, seq: Math.max(seq, known?.seq ?? 0) })
      const [oldest] = heard.keys()
      if (heard.size > MOST_CACHED && oldest !== undefined) heard.delete(oldest)
    },
    newest: () => [...heard.values()].toReversed().map(({ workflowId, executionId }) => ({ workflowId, executionId })),
  }
}
