// The start argument of the current execution.
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow'
import { isSessionId, sessionIdOf, workflowIdOf } from '../../session/protocol/protocol.ts'
import { checkStart, type Start } from '../../session/protocol/start.ts'

/** The start argument of this execution. Fails the workflow if its id is not a session id, because nothing could be recorded. */
export function readStart(raw: unknown): Start {
  const { workflowId, continuedFromExecutionRunId } = workflowInfo()
  const sessionId = sessionIdOf(workflowId)
  if (!isSessionId(sessionId) || workflowIdOf(sessionId) !== workflowId) {
    throw ApplicationFailure.nonRetryable(
      `The workflow id "${workflowId}" is not a session's. Start a session as "${workflowIdOf('<session id>')}", with an id of 1 to 200 of [A-Za-z0-9._:/@-].`,
      'invalid_session_id',
    )
  }
  return checkStart(raw, continuedFromExecutionRunId)
}
