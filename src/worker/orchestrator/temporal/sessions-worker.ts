// The SDK's worker as pawl uses it, with pawl's own composition of the workflow creator.
import { type Logger, noopMetricMeter } from '@temporalio/common'
import { Worker, type WorkflowBundleOption } from '@temporalio/worker'
import { type CompiledWorkerOptions, compileWorkerOptions } from '@temporalio/worker/lib/worker-options.js'
import type { WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import type { WorkflowBundleWithSourceMapAndFilename } from '@temporalio/worker/lib/workflow/workflow-worker-thread/input.js'
import type { FailingExecution } from '../../protocol.ts'
import { ACTIVATION_LIMIT_MS, limitedTo } from './activation-limit.ts'
import { isCommittedAt, withCommittedQueries } from './committed-queries.ts'
import { prepareThreads, threadCode, workflowThreads } from './workflow-threads.ts'
import { EvictionReason, type RemoveFromCache } from '@temporalio/worker/lib/replay.js'

/**
 * A worker whose workflows use pawl's threads, activation limit and refusal of uncommitted queries. It does not use the SDK's own limit,
 * the `timeout` of Node's `vm`: for each step of an activation, Node would start a thread that counts the time, and wait for its end. That
 * would be most of a step's CPU time and, on a busy machine, most of its duration.
 */
export class SessionsWorker extends Worker {
  /** Starts the threads of a worker that this process may have later, with the same bundle and activities of the same names. */
  static async prepare(workflowBundle: WorkflowBundleOption, activityNames: readonly string[], logger: Logger): Promise<void> {
    const activities = Object.fromEntries(activityNames.map((name) => [name, async () => undefined]))
    const options = compileWorkerOptions({ taskQueue: 'none', workflowBundle, activities }, logger, noopMetricMeter)
    const bundle = await this.getOrCreateBundle(options, logger)
    if (bundle) await prepareThreads(threadCode(bundle, options), () => super.createWorkflowCreator(bundle, unlimited(options), logger))
  }

  /** The SDK takes a tenth of a second to read a bundle and repeats that for each worker, so the newest bundle is kept. */
  protected static override getOrCreateBundle(
    options: CompiledWorkerOptions,
    logger: Logger,
  ): Promise<WorkflowBundleWithSourceMapAndFilename | undefined> {
    const { workflowBundle } = options
    if (!workflowBundle) return super.getOrCreateBundle(options, logger)
    const of = 'codePath' in workflowBundle ? workflowBundle.codePath : workflowBundle.code
    if (readBundle?.of !== of) {
      const bundle = super.getOrCreateBundle(options, logger)
      readBundle = { of, bundle }
      bundle.catch(() => {
        if (readBundle?.bundle === bundle) readBundle = undefined
      })
    }
    return readBundle.bundle
  }

  protected static override async createWorkflowCreator(
    bundle: WorkflowBundleWithSourceMapAndFilename,
    options: CompiledWorkerOptions,
    logger: Logger,
  ): Promise<WorkflowCreator> {
    const start = (): Promise<WorkflowCreator> => super.createWorkflowCreator(bundle, unlimited(options), logger)
    const limited = noting(limitedTo(ACTIVATION_LIMIT_MS, await workflowThreads(threadCode(bundle, options), start)))
    const { connection, namespace } = options
    // A worker that replays histories has no connection and answers no queries.
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

const unlimited = (options: CompiledWorkerOptions): CompiledWorkerOptions => ({
  ...options,
  isolateExecutionTimeoutMs: undefined as unknown as number,
})

/** The newest bundle that a worker of this process has read. */
let readBundle: { of: string; bundle: Promise<WorkflowBundleWithSourceMapAndFilename | undefined> } | undefined

/** How core reports that it drops an execution. */
interface CacheRemoval {
  runId: string
  evictJob: RemoveFromCache
}

/** Reasons that do not imply a failing execution: no room in the cache, a stopping worker, or a task that another worker has completed. */
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

/** Wraps a creator to note its executions. */
function noting(creator: WorkflowCreator): WorkflowCreator {
  return {
    createWorkflow(options) {
      held.set(options.info.runId, options.info.workflowId)
      return creator.createWorkflow(options)
    },
    destroy: () => creator.destroy(),
  }
}

/** The execution, if core drops it because something failed. Core names only its run id. */
function failedBy({ runId: executionId, evictJob }: CacheRemoval): FailingExecution | undefined {
  const workflowId = held.get(executionId)
  held.delete(executionId)
  if (workflowId === undefined || ORDINARY.has(evictJob.reason)) return undefined
  return { workflowId, executionId, since: Date.now(), reason: evictJob.message || NO_REASON }
}
