// The SDK's worker with a time limit for the activations of workflows that costs nothing: one timer in place of a thread per step.
import { Worker } from '@temporalio/worker'
import type { CompiledWorkerOptions } from '@temporalio/worker/lib/worker-options.js'
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import type { WorkflowBundleWithSourceMapAndFilename } from '@temporalio/worker/lib/workflow/workflow-worker-thread/input.js'
import type { Logger } from '@temporalio/common'
import { numberText } from '../../../session/number-text.ts'
import { isCommittedAt, withCommittedQueries } from './committed-queries.ts'
import { threadCode, workflowThreads } from './workflow-threads.ts'

/**
 * How long one activation of a workflow may take. A thread that takes longer will not come back, and all sessions wait for it.
 * Long enough for a busy machine, or for a session that gets a thousand messages at once.
 */
const ACTIVATION_LIMIT_MS = 60_000

/**
 * A worker without the SDK's own limit, a `timeout` of Node's `vm`: for each step of an activation, Node starts a thread that counts the
 * time and waits until it has ended. That is most of the CPU time of a step, and on a busy machine most of its duration.
 */
export class LimitedWorker extends Worker {
  protected static override async createWorkflowCreator(
    bundle: WorkflowBundleWithSourceMapAndFilename,
    options: CompiledWorkerOptions,
    logger: Logger,
  ): Promise<WorkflowCreator> {
    const unlimited = { ...options, isolateExecutionTimeoutMs: undefined as unknown as number }
    const start = (): Promise<WorkflowCreator> => super.createWorkflowCreator(bundle, unlimited, logger)
    const limited = limitedTo(ACTIVATION_LIMIT_MS, await workflowThreads(threadCode(bundle, options), start))
    const { connection, namespace } = options
    // A worker that replays histories has no connection, and answers no queries.
    return connection ? withCommittedQueries((applied) => isCommittedAt(connection.workflowService, namespace, applied), limited) : limited
  }
}

/**
 * Ends the process if an activation takes longer: its thread cannot be stopped, and another process can take over. The one thread handles
 * one request after another, so the time counts from the end of the one before.
 */
export function limitedTo(limitMs: number, creator: WorkflowCreator): WorkflowCreator {
  /** The requests that the thread has not answered, oldest first, and the executions that they are for. */
  const pending = new Map<symbol, string>()
  let stop = (): void => undefined

  function restart(): void {
    stop()
    const [runId] = pending.values()
    if (runId === undefined) return
    stop = startTimer(limitMs, () => {
      throw new Error(
        `An activation of the workflow execution ${runId} has taken longer than ${numberText(limitMs)} ms: its thread is blocked.`,
      )
    })
  }

  async function inTime<R>(runId: string, answer: Promise<R>): Promise<R> {
    const request = Symbol()
    pending.set(request, runId)
    if (pending.size === 1) restart()
    try {
      return await answer
    } finally {
      pending.delete(request)
      restart()
    }
  }

  return {
    async createWorkflow(options) {
      const { runId } = options.info
      const workflow = await inTime(runId, creator.createWorkflow(options))
      return {
        activate: (activation) => inTime(runId, workflow.activate(activation)),
        getAndResetSinkCalls: () => workflow.getAndResetSinkCalls(),
        dispose: () => workflow.dispose(),
      } satisfies Workflow
    },
    destroy: () => creator.destroy(),
  }
}

/** In two halves: after the process was paused, or its event loop blocked, the thread's answer may be waiting behind the timer. */
function startTimer(limitMs: number, end: () => void): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(end, limitMs / 2)
  }, limitMs / 2)
  return () => clearTimeout(timer)
}
