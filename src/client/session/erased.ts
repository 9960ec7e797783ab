// Whether a session's content is erased. Temporal keeps a history for a while after its deletion was requested, and answers queries from it.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { ListedSession } from '../../store/listed.ts'
import type { Store } from '../../store/store.ts'
import { type ExecutionState, executionStateOf } from './hold-ups.ts'

/** When the content was erased, unless a message has started the session again. */
export function erasedAtOf(row: Pick<ListedSession, 'erasedAt'>, execution: ExecutionState | undefined): number | undefined {
  return execution?.open === true ? undefined : row.erasedAt?.getTime()
}

/** Whether the session is erased and has not started again. */
export async function isErased({
  client,
  store,
  sessionId,
}: {
  client: Client
  store: Store | undefined
  sessionId: string
}): Promise<boolean> {
  const row = await store?.lists.session(sessionId)
  if (!row?.erasedAt) return false
  const execution = await executionStateOf(client, sessionId).catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  })
  return erasedAtOf(row, execution) !== undefined
}
