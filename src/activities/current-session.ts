// The session whose workflow has scheduled the current activity.
import { Context } from '@temporalio/activity'
import type { Client } from '@temporalio/client'
import { sessionIdOf } from '../session/protocol/protocol.ts'

/** The session, and the execution that waits for the activity. */
export function currentSession(): { client: Client; sessionId: string; workflowId: string; executionId: string } {
  const { client, info } = Context.current()
  const { workflowId = '', runId: executionId = '' } = info.workflowExecution ?? {}
  return { client, sessionId: sessionIdOf(workflowId), workflowId, executionId }
}
