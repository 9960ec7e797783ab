// The start of the execution that is going on.
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow'
import { isSessionId, sessionIdOf, workflowIdOf } from '../session/protocol.ts'
import { checkStart, type Start } from '../session/start.ts'

/** What this execution was started with. Fails it if its workflow id is not a session's: nothing could be recorded then. */
export function readStart(raw: unknown): Start {
  const { workflowId, continuedFromExecutionRunId } = workflowInfo()
  const sessionId = sessionIdOf(workflowId)
  if (!isSessionId(sessionId) || workflowIdOf(sessionId) !== workflowId) {
    throw ApplicationFailure.nonRetryable(
      `The workflow id "${workflowId}" is not a session's: start a session as "${workflowIdOf('<session id>')}", the id of 1 to 200 of [A-Za-z0-9._:/@-].`,
      'invalid_session_id',
    )
  }
  return checkStart(raw, continuedFromExecutionRunId)
}
