// Tells which executions the SDK's core drops because something failed. Core names an execution by its run id alone.
import { EvictionReason, type RemoveFromCache } from '@temporalio/worker/lib/replay.js'
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import type { CachedExecution } from '../../protocol.ts'

/** How core says that it drops an execution. */
export interface Dropped {
  runId: string
  evictJob: RemoveFromCache
}

/** Reasons that say nothing about the execution: no room in the cache, a stopping worker, or a task that another worker has completed. */
const ORDINARY: ReadonlySet<unknown> = new Set([
  EvictionReason.UNSPECIFIED,
  EvictionReason.CACHE_FULL,
  EvictionReason.CACHE_MISS,
  EvictionReason.LANG_REQUESTED,
  EvictionReason.TASK_NOT_FOUND,
  EvictionReason.UNHANDLED_COMMAND,
  EvictionReason.WORKFLOW_EXECUTION_ENDING,
  undefined,
  null,
])

/** The workflow ids of the executions in the caches of this process. */
const held = new Map<string, string>()

/** A creator that notes its executions. */
export function noting(creator: WorkflowCreator): WorkflowCreator {
  return {
    createWorkflow(options) {
      held.set(options.info.runId, options.info.workflowId)
      return creator.createWorkflow(options)
    },
    destroy: () => creator.destroy(),
  }
}

/** The execution, if core drops it because something failed. */
export function failedBy({ runId: executionId, evictJob }: Dropped): CachedExecution | undefined {
  const workflowId = held.get(executionId)
  held.delete(executionId)
  return workflowId === undefined || ORDINARY.has(evictJob.reason) ? undefined : { workflowId, executionId }
}
