// The query `events` of a session's workflow: what an execution, be it open or closed, holds of the session's events.
import type { Client } from '@temporalio/client'
import { type EventsPage, type EventsQuery, QUERIES, workflowIdOf } from '../session/protocol.ts'

/** An execution of a session; without an id the newest one. */
export interface QueriedExecution {
  sessionId: string
  executionId?: string | undefined
}

/**
 * A page of the events above `after`. Undefined: the session is not open there yet, or never was. Rejects as the SDK's client does, also
 * if no worker has answered in time: one may have to replay the whole history first.
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
