// The size of the sessions' histories, from the Temporal server.
import type { Client } from '@temporalio/client'

/** Bytes of history of a session's whole chain of executions. */
export async function historyBytes(client: Client, sessionId: string): Promise<number> {
  const workflowId = `pawl:${sessionId}`
  let bytes = 0
  let runId: string | undefined
  do {
    const { historySize, runId: described } = await client.workflow.getHandle(workflowId, runId).describe()
    bytes += historySize ?? 0
    runId = await continuedFrom(client, workflowId, described)
  } while (runId)
  return bytes
}

/** The execution that this one continues, if any, from its first event. */
async function continuedFrom(client: Client, workflowId: string, runId: string): Promise<string | undefined> {
  const { history } = await client.workflowService.getWorkflowExecutionHistory({
    namespace: client.options.namespace,
    execution: { workflowId, runId },
    maximumPageSize: 1,
  })
  return history?.events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined
}
