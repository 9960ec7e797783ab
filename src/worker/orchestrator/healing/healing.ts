// Continues sessions whose executions no worker can replay. This build has failed a workflow task of such an execution; if no other build
// completes that task within a while, in which a bad deploy may be rolled back, a new execution takes the session over.
import { setMaxListeners } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, WorkflowNotFoundError, type WorkflowStartOptions } from '@temporalio/client'
import { InternalWorkflowStartOptionsSymbol } from '@temporalio/client/lib/internal.js'
import type { Logger } from '../../../agent/tool.ts'
import { sessionIdOf, type SessionStart, WORKFLOW_TASK_TIMEOUT_MS, WORKFLOW_TYPE } from '../../../session/protocol/protocol.ts'
import { cutText, TEXT_BYTES } from '../../../session/protocol/texts.ts'
import type { CachedExecution, FailingExecution } from '../../protocol.ts'
import { type BrokenExecution, examine, firstTaskOf } from './broken.ts'

export interface HealingParts {
  client: Client
  taskQueue: string
  logger: Logger
  /** For how long no worker must have completed the execution's task. Each consecutive takeover takes four times as long. */
  afterMs: number
  notes: FailingNotes
}

/** Notes for the next orchestrator of this worker, to which the server may give a failing task only minutes later. */
export interface FailingNotes {
  /** The executions that the earlier orchestrators were watching. */
  earlier: readonly FailingExecution[]
  note(execution: FailingExecution): void
  forget(executionId: string): void
}

export interface Healing {
  /** This worker has failed a workflow task of the execution. */
  suspect(execution: FailingExecution): void
  /** This worker can carry out tasks, and now watches the executions that the earlier orchestrators were watching. */
  serving(): void
  end(): void
}

/** How often an execution is examined while one of its results is outstanding. */
const LOOK_AGAIN_MS = 1_000
const FACTOR = 4
/** The upper limit of these growing times. */
const LONGEST_MS = 24 * 3_600_000
/** How long the first task of a new execution may take before it proves nothing. */
const FIRST_TASK_MS = 30_000
const BETWEEN_LOOKS_MS = 250

export function startHealing({ client, taskQueue, logger, afterMs, notes }: HealingParts): Healing {
  const ended = new AbortController()
  setMaxListeners(0, ended.signal)
  const watched = new Set<string>()
  /** One at a time. If this build fails the new execution, too, the build itself is broken, and no other session is touched. */
  let turn: Promise<void> = Promise.resolve()
  let isBuildBroken = false

  async function watch(suspect: FailingExecution): Promise<void> {
    let completedAt: string | undefined
    while (!ended.signal.aborted) {
      const broken = await examine(client, suspect).catch(notFound)
      if (!broken || isBuildBroken) return
      completedAt ??= broken.completedAt
      // Another build has completed the task. If the next one fails, too, the execution is suspected again.
      if (completedAt !== broken.completedAt) return
      const dueInMs = broken.since + patienceFor(broken) - Date.now()
      if (dueInMs <= 0 && !broken.isBusy) return inTurn(() => heal(suspect))
      await sleep(dueInMs > 0 ? dueInMs : LOOK_AGAIN_MS, undefined, { signal: ended.signal, ref: false })
    }
  }

  function patienceFor({ start }: BrokenExecution): number {
    return Math.min(afterMs * FACTOR ** (start.unreplayable?.times ?? 0), Math.max(afterMs, LONGEST_MS))
  }

  function inTurn(work: () => Promise<void>): Promise<void> {
    turn = turn.catch(() => undefined).then(work)
    return turn
  }

  async function heal(suspect: FailingExecution): Promise<void> {
    // Another worker may have healed it in the meantime.
    const broken = isBuildBroken ? undefined : await examine(client, suspect).catch(notFound)
    if (!broken || ended.signal.aborted) return
    const { workflowId, executionId } = suspect
    const successor = await startSuccessor(suspect, broken)
    const about = { session: sessionIdOf(workflowId), execution: executionId, successor }
    logger.warn(about, 'no worker has completed the workflow task of an execution for too long, so its session continues in a new one')
    isBuildBroken = (await outcomeOf({ workflowId, executionId: successor })) === 'failed'
    if (isBuildBroken) {
      const message =
        'this build fails new executions, too, so no further session continues in a new execution until the worker is replaced'
      logger.error({ ...about, reason: broken.reason }, message)
    }
  }

  /**
   * Terminates the execution and starts its successor in one atomic request. Every worker sends the same request id, so the server starts
   * only one successor.
   */
  async function startSuccessor({ workflowId, executionId }: CachedExecution, { start, reason, view }: BrokenExecution): Promise<string> {
    const { agent, context, tags, settings, unreplayable } = start
    const next: SessionStart = {
      sessionId: sessionIdOf(workflowId),
      ...(agent !== undefined && { agent }),
      ...(context !== undefined && { context }),
      ...(tags && { tags }),
      ...(settings && { settings }),
      unreplayable: { executionId, reason: cutText(reason, TEXT_BYTES.reason), times: (unreplayable?.times ?? 0) + 1 },
    }
    const options: WorkflowStartOptions = {
      ...view,
      workflowId,
      taskQueue,
      workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
      workflowIdConflictPolicy: 'TERMINATE_EXISTING',
      args: [next],
      ...{ [InternalWorkflowStartOptionsSymbol]: { requestId: `heal-${executionId}` } },
    }
    return (await client.workflow.start(WORKFLOW_TYPE, options)).firstExecutionRunId
  }

  async function outcomeOf(execution: CachedExecution): Promise<'completed' | 'failed' | undefined> {
    for (const until = Date.now() + FIRST_TASK_MS; Date.now() < until && !ended.signal.aborted; ) {
      const outcome = await firstTaskOf(client, execution)
      if (outcome) return outcome
      await sleep(BETWEEN_LOOKS_MS, undefined, { ref: false })
    }
    return undefined
  }

  function suspect(execution: FailingExecution): void {
    const { executionId } = execution
    if (watched.has(executionId) || isBuildBroken) return
    watched.add(executionId)
    notes.note(execution)
    watch(execution)
      .catch((err: unknown) => {
        // It is suspected again when its task fails again.
        if (!ended.signal.aborted) logger.debug({ err, session: sessionIdOf(execution.workflowId) }, 'an execution could not be examined')
      })
      .finally(() => {
        watched.delete(executionId)
        if (!ended.signal.aborted) notes.forget(executionId)
      })
  }

  return {
    suspect,
    serving: () => notes.earlier.forEach(suspect),
    end: () => ended.abort(),
  }
}

/** An execution that the server no longer has needs no healing. */
function notFound(error: unknown): undefined {
  if (error instanceof WorkflowNotFoundError) return undefined
  throw error
}
