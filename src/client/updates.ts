// What needs an answer of a session: updates of its workflow, which is opened again for them if it has closed.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/common'
import { type SessionStart, WORKFLOW_TASK_TIMEOUT_MS, WORKFLOW_TYPE, workflowIdOf } from '../session/protocol.ts'
import { RequestRefused, SessionNotFound, SessionUnavailable } from './errors.ts'

const FAILED_PRECONDITION = 9
const NOT_READY_MS = 30_000
const BETWEEN_TRIES_MS = 500

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
  // Asked again under the same id, it is carried out once.
  const updateId = randomUUID()
  return refusable(asked.sessionId, async () => {
    try {
      if (request === undefined) return await workflow.executeUpdate<R, []>(update, { updateId })
      return await workflow.executeUpdate<R, [object]>(update, { updateId, args: [request] })
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

/** Makes the update, again while the workflow is not ready for one, and makes of its failure what that says. */
export async function refusable<R>(sessionId: string, update: () => Promise<R>): Promise<R> {
  const giveUpAt = Date.now() + NOT_READY_MS
  try {
    for (;;) {
      try {
        return await update()
      } catch (error) {
        if (!isNotReady(error) || Date.now() > giveUpAt) throw error
        await sleep(BETWEEN_TRIES_MS)
      }
    }
  } catch (cause) {
    if (isNotReady(cause)) throw new SessionUnavailable(sessionId, { cause })
    if (!(cause instanceof WorkflowUpdateFailedError && cause.cause instanceof ApplicationFailure)) throw cause
    const { type, message } = cause.cause
    if (type === 'session_not_found') throw new SessionNotFound(sessionId, { cause })
    throw new RequestRefused(type ?? 'invalid_request', message, { cause })
  }
}

/** The server takes no updates while the workflow's newest tasks were lost, as those of a worker are that was killed. */
function isNotReady(error: unknown): boolean {
  return isGrpcServiceError(error) ? error.code === FAILED_PRECONDITION : error instanceof ServiceError && isNotReady(error.cause)
}
