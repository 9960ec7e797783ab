// Events that an execution made and nobody stored: it was ended from outside before its flush. History has them still.
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import { type EventsPage, QUERIES, workflowIdOf } from '../session/protocol.ts'
import type { SessionState } from '../session/state.ts'
import { StoreError } from '../store/errors.ts'
import type { Store } from '../store/store.ts'
import { StaleWatermark } from './errors.ts'
import type { SessionReader } from './session-reader.ts'

/** How executions end that nobody lets flush first. */
const CUT_OFF = "('Terminated', 'Failed', 'TimedOut', 'Canceled')"
const QUERY_TIMEOUT_MS = 10_000

/** Where what was left behind is looked for, and stored. */
interface LeftBehindNeeds {
  store: Store
  reader: SessionReader
  client: Client
  logger: Logger
}

/** Stores what the execution that was reset, if one was, and the newest one that was cut off have left behind. */
export async function storeLeftBehind(sessionId: string, wasReset: string | undefined, needs: LeftBehindNeeds): Promise<void> {
  if (wasReset !== undefined) await storeRestOf(sessionId, wasReset, needs)
  const newest = await newestCutOff(sessionId, needs.client)
  if (newest !== undefined && newest !== wasReset) await storeRestOf(sessionId, newest, needs)
}

/** Stores what an execution has left behind, as far as it continues what is stored. */
async function storeRestOf(sessionId: string, executionId: string, { store, reader, client, logger }: LeftBehindNeeds): Promise<void> {
  try {
    const end = await endOf(sessionId, executionId, client)
    const head = (await store.head(sessionId)) ?? { seq: 0, digest: '' }
    if (!end || end.watermark.seq <= head.seq) return
    const entries = await reader.entries({ sessionId, executionId, ...end }, head, client)
    await store.flush(sessionId, end.epoch, entries)
    logger.warn({ sessionId, executionId, events: entries.length }, 'stored events of an execution that was ended before it could')
  } catch (err) {
    // What was erased is not brought back, though its history may live for moments more.
    if (err instanceof StoreError && err.code === 'session_erased') return
    // An older chain's, which the session has long gone on from.
    if (!(err instanceof StaleWatermark)) throw err
    logger.debug({ err, sessionId, executionId }, 'an execution that was ended from outside does not go on from what is stored')
  }
}

/** By visibility, which may be late: what it does not know of is not looked for. */
async function newestCutOff(sessionId: string, client: Client): Promise<string | undefined> {
  let newest: { id: string; at: number } | undefined
  const query = `WorkflowId = '${workflowIdOf(sessionId)}' AND ExecutionStatus IN ${CUT_OFF}`
  for await (const { runId, closeTime } of client.workflow.list({ query })) {
    const at = closeTime?.getTime() ?? 0
    if (!newest || at > newest.at) newest = { id: runId, at }
  }
  return newest?.id
}

/** Where the execution had come to; undefined for one that had not opened. */
async function endOf(sessionId: string, executionId: string, client: Client) {
  const handle = client.workflow.getHandle(workflowIdOf(sessionId), executionId)
  const ask = <T>(query: () => Promise<T>): Promise<T> => client.withDeadline(Date.now() + QUERY_TIMEOUT_MS, query)
  const state = await ask(() => handle.query<SessionState | { status: 'loading' }>(QUERIES.state))
  if (state.status === 'loading') return undefined
  const page = await ask(() => handle.query<EventsPage, [object]>(QUERIES.events, { after: state.seq - 1 }))
  return { epoch: state.epoch, watermark: page.to, ...(state.origin && { origin: state.origin }) }
}
