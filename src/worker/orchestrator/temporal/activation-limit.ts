// A time limit for the activations of workflows that costs nothing: one timer in place of a thread per step.
import type { Workflow, WorkflowCreator } from '@temporalio/worker/lib/workflow/interface.js'
import { numberText } from '../../../session/number-text.ts'

/**
 * How long one activation of a workflow may take. A thread that takes longer will not finish, and all sessions wait for it. The limit is
 * long enough for a busy machine, or for a session that gets a thousand messages at once.
 */
export const ACTIVATION_LIMIT_MS = 60_000

/**
 * Ends the process if an activation takes longer: the thread cannot be stopped, but another process can take over. The thread handles one
 * request after another, so the time counts from the end of the previous one.
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

/**
 * The timer has two halves. After the process was paused or its event loop blocked, the thread's answer may be waiting behind the timer.
 */
function startTimer(limitMs: number, end: () => void): () => void {
  let timer = setTimeout(() => {
    timer = setTimeout(end, limitMs / 2)
  }, limitMs / 2)
  return () => clearTimeout(timer)
}
