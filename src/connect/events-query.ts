// The query `events` of a session's workflow: the events of one execution, open or closed.
import type { Client } from '@temporalio/client'
import { type EventsPage, type EventsQuery, QUERIES, workflowIdOf } from '../session/protocol/protocol.ts'

/** An execution of a session; without an id, the newest one. */
export interface QueriedExecution {
  sessionId: string
  executionId?: string | undefined
}

/**
 * A page of the events after `after`. Undefined if the session is not open in that execution yet, or never was. Rejects like the SDK's
 * client, also if no worker answers in time: a worker may have to replay the whole history first.
 */
export async function queryEvents(
  client: Client,
  { sessionId, executionId }: QueriedExecution,
  query: EventsQuery & { after: number },
  timeoutMs: number,
): Promise<EventsPage | undefined> {
  const handle = client.workflow.getHandle(workflowIdOf(sessionId), executionId)
  const page = await client.withDeadline(Date.now() + timeoutMs, () =>
    handle.query<EventsPage | { status: string }, [EventsQuery]>(QUERIES.events, query),
  )
  return 'base' in page ? page : undefined
}
