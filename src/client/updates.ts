// What needs an answer of a session: updates of its workflow, which is opened again for them if it has closed.
import { type Client, WithStartWorkflowOperation, WorkflowNotFoundError, WorkflowUpdateFailedError } from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/common'
import { type SessionStart, WORKFLOW_TASK_TIMEOUT_MS, WORKFLOW_TYPE, workflowIdOf } from '../session/protocol.ts'
import { RequestRefused, SessionNotFound } from './errors.ts'

/** Of which session something is asked. */
export interface Asked {
  client: Client
  sessionId: string
  taskQueue: string
  settings: SessionStart['settings']
}

/** Carries out an update; a session whose workflow has closed is resumed for it. @throws RequestRefused, SessionNotFound. */
export async function ask<R>(asked: Asked, update: string, request?: object): Promise<R> {
  const workflow = asked.client.workflow.getHandle(workflowIdOf(asked.sessionId))
  return refusable(asked.sessionId, async () => {
    try {
      if (request === undefined) return await workflow.executeUpdate<R, []>(update)
      return await workflow.executeUpdate<R, [object]>(update, { args: [request] })
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error
      const { sessionId, settings } = asked
      return startFor<R>(
        asked,
        update,
        request === undefined ? [] : [request],
        { sessionId, mustExist: true, ...(settings && { settings }) },
        'USE_EXISTING',
      )
    }
  })
}

/** Starts a session's workflow and carries out an update in it. */
export function startFor<R>(
  { client, taskQueue }: Asked,
  update: string,
  args: object[],
  start: SessionStart,
  workflowIdConflictPolicy: 'USE_EXISTING' | 'FAIL',
): Promise<R> {
  const startWorkflowOperation = new WithStartWorkflowOperation(WORKFLOW_TYPE, {
    workflowId: workflowIdOf(start.sessionId),
    taskQueue,
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
    workflowIdConflictPolicy,
    args: [start],
  })
  // Its rejection is the update's too.
  startWorkflowOperation.workflowHandle().catch(() => undefined)
  return client.workflow.executeUpdateWithStart(update, { args, startWorkflowOperation })
}

/** Makes of an update's failure what it says. */
export async function refusable<R>(sessionId: string, update: () => Promise<R>): Promise<R> {
  try {
    return await update()
  } catch (cause) {
    if (!(cause instanceof WorkflowUpdateFailedError && cause.cause instanceof ApplicationFailure)) throw cause
    const { type, message } = cause.cause
    if (type === 'session_not_found') throw new SessionNotFound(sessionId, { cause })
    throw new RequestRefused(type ?? 'invalid_request', message, { cause })
  }
}
