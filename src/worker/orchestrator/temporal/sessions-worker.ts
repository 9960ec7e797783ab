// The SDK's worker as pawl runs workflows: how the creator of its workflows is composed.
import { Worker } from '@temporalio/worker'
import type { CompiledWorkerOptions } from '@temporalio/worker/lib/worker-options.js'
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import type { WorkflowBundleWithSourceMapAndFilename } from '@temporalio/worker/lib/workflow/workflow-worker-thread/input.js'
import type { Logger } from '@temporalio/common'
import type { FailingExecution } from '../../protocol.ts'
import { ACTIVATION_LIMIT_MS, limitedTo } from './activation-limit.ts'
import { isCommittedAt, withCommittedQueries } from './committed-queries.ts'
import { threadCode, workflowThreads } from './workflow-threads.ts'
import { EvictionReason, type RemoveFromCache } from '@temporalio/worker/lib/replay.js'

/**
 * A worker whose workflows have pawl's threads, limit of activations and refusal of uncommitted queries. It has no limit of the SDK's own, a
 * `timeout` of Node's `vm`: for each step of an activation, Node starts a thread that counts the time and waits until it has ended. That is
 * most of the CPU time of a step, and on a busy machine most of its duration.
 */
export class SessionsWorker extends Worker {
  protected static override async createWorkflowCreator(
    bundle: WorkflowBundleWithSourceMapAndFilename,
    options: CompiledWorkerOptions,
    logger: Logger,
  ): Promise<WorkflowCreator> {
    const unlimited = { ...options, isolateExecutionTimeoutMs: undefined as unknown as number }
    const start = (): Promise<WorkflowCreator> => super.createWorkflowCreator(bundle, unlimited, logger)
    const limited = noting(limitedTo(ACTIVATION_LIMIT_MS, await workflowThreads(threadCode(bundle, options), start)))
    const { connection, namespace } = options
    // A worker that replays histories has no connection, and answers no queries.
    return connection ? withCommittedQueries((applied) => isCommittedAt(connection.workflowService, namespace, applied), limited) : limited
  }

  /** Calls `listener` for each execution that core drops because something failed. */
  onFailed(listener: (execution: FailingExecution) => void): void {
    this.evictionsEmitter.on('eviction', (dropped: CacheRemoval) => {
      const execution = failedBy(dropped)
      if (execution) listener(execution)
    })
  }
}

/** How core says that it drops an execution. */
interface CacheRemoval {
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

const NO_REASON = 'its workflow task fails'

/** The workflow ids of the executions in the caches of this process. */
const held = new Map<string, string>()

/** A creator that notes its executions. */
function noting(creator: WorkflowCreator): WorkflowCreator {
  return {
    createWorkflow(options) {
      held.set(options.info.runId, options.info.workflowId)
      return creator.createWorkflow(options)
    },
    destroy: () => creator.destroy(),
  }
}

/** The execution, if core drops it because something failed. Core names an execution by its run id alone. */
function failedBy({ runId: executionId, evictJob }: CacheRemoval): FailingExecution | undefined {
  const workflowId = held.get(executionId)
  held.delete(executionId)
  if (workflowId === undefined || ORDINARY.has(evictJob.reason)) return undefined
  return { workflowId, executionId, since: Date.now(), reason: evictJob.message || NO_REASON }
}
