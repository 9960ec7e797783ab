// Whether a session's content is erased or pruned. Temporal keeps a history for a while after its deletion was requested, and answers
// queries from it.
import { type Client, WorkflowNotFoundError } from '@temporalio/client'
import type { ListedSession } from '../../store/listed.ts'
import type { Store } from '../../store/store.ts'
import { inTime } from '../../waiting/in-time.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { RequestRefusedError, SessionNotFoundError } from '../errors.ts'
import { type ExecutionState, executionStateOf } from './hold-ups.ts'

/** How long a reader that has another answer waits for Postgres. */
const PATIENCE_MS = 1_000

interface Erasable {
  client: Client
  store: Store | undefined
  sessionId: string
}

/** When the content was erased, unless a message has started the session again. */
export function erasedAtOf(row: Pick<ListedSession, 'erasedAt'>, execution: ExecutionState | undefined): number | undefined {
  return execution?.open === true ? undefined : row.erasedAt?.getTime()
}

/** Whether the session is erased and has not started again. */
export async function isErased({ client, store, sessionId }: Erasable): Promise<boolean> {
  const row = await store?.lists.session(sessionId)
  if (!row?.erasedAt) return false
  const execution = await executionStateOf(client, sessionId).catch((error: unknown) => {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  })
  return erasedAtOf(row, execution) !== undefined
}

/**
 * The error for a session that was erased and has not started again; undefined if it was not, or if that cannot be determined now. Postgres
 * is asked only about a session that is not open, so an outage of Postgres costs open sessions nothing.
 */
export async function ifErased({ client, store, sessionId }: Erasable): Promise<SessionNotFoundError | undefined> {
  if (!store) return undefined
  const execution = await executionStateOf(client, sessionId).catch((error: unknown) => {
    return error instanceof WorkflowNotFoundError ? ({ open: false } as const) : undefined
  })
  if (!execution || execution.open) return undefined
  const row = await inTime(
    store.lists.session(sessionId).catch(() => null),
    PATIENCE_MS,
  )
  const erasedAt = row?.erasedAt?.getTime()
  return erasedAt === undefined ? undefined : new SessionNotFoundError(sessionId, { erasedAt })
}

/** The result of `read`; if the session is not found because it was erased, the error says so. */
export async function sayingIfErased<T>(source: Erasable, read: () => Promise<T>): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof SessionNotFoundError) || error.erasedAt !== undefined) throw error
    throw (await ifErased(source)) ?? error
  }
}

/** The same for a reader of the session's past: a pruned session has no events, either. */
export async function sayingIfGone<T>(source: Omit<Erasable, 'client'> & { client?: Client }, read: () => Promise<T>): Promise<T> {
  const { client, store, sessionId } = source
  try {
    return await read()
  } catch (error) {
    if (!(error instanceof SessionNotFoundError) || error.erasedAt !== undefined) throw error
    const erased = client && (await ifErased({ client, store, sessionId }))
    throw erased ?? (await whyGone(store, sessionId)) ?? error
  }
}

/** The error for a session that has a row and no events. */
async function whyGone(store: Store | undefined, sessionId: string): Promise<SessionNotFoundError | RequestRefusedError | undefined> {
  const { erasedAt, prunedAt } = (await store?.lists.session(sessionId).catch(() => null)) ?? {}
  if (erasedAt) return new SessionNotFoundError(sessionId, { erasedAt: erasedAt.getTime() })
  return prunedAt ? new RequestRefusedError('events_gone', prunedText(sessionId, prunedAt)) : undefined
}

/** What is left of a pruned session. */
function prunedText(sessionId: string, prunedAt: Date): string {
  const rest = `\`${SUGGESTIONS.listArchived(sessionId)}\` lists its messages. A message to it starts it over.`
  return `Session "${sessionId}" was pruned at ${prunedAt.toISOString()}, and its events are deleted. ${rest}`
}
