// The queries of a session's workflow: its state, and the events of one execution, open or closed.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, QueryNotRegisteredError } from '@temporalio/client'
import {
  type EventsPage,
  type EventsQuery,
  type QueriedState,
  QUERIES,
  type UnopenedState,
  workflowIdOf,
} from '../session/protocol/protocol.ts'
import type { SessionState } from '../session/state.ts'

/** A worker's answer when its newest events for an execution do not belong to a completed workflow task. */
export const NOT_COMMITTED = 'The newest workflow task of this execution is not completed. Repeat the query.'
/** The answer of the SDK's core if it has applied more events than the query was sent with. */
const OUTDATED = 'Query expired'
const RETRY_AFTER_MS = 100

/** An execution of a session; without an id, the newest one. */
export interface QueriedExecution {
  sessionId: string
  executionId?: string | undefined
}

/**
 * A page of the events after `after`. Undefined if the session is not open in that execution yet, or never was. Rejects as the SDK's client
 * does, including when no worker answers in time: a worker may have to replay the whole history first.
 */
export async function queryEvents(
  client: Client,
  execution: QueriedExecution,
  query: EventsQuery & { after: number },
  timeoutMs: number,
): Promise<EventsPage | undefined> {
  const page = await ask<EventsPage | { status: string }>(client, execution, [QUERIES.events, query], timeoutMs)
  return 'base' in page ? page : undefined
}

/** The state of the session in its newest execution, or that it is not open yet. Rejects as `queryEvents` does. */
export async function queryState(client: Client, sessionId: string, timeoutMs: number): Promise<SessionState | UnopenedState> {
  const live = await queryStateAndFacts(client, sessionId, timeoutMs)
  if (!('v' in live)) return live
  const { callWaits: _, stopping: __, ...state } = live
  return state
}

/** The same, plus what the state does not include. */
export function queryStateAndFacts(client: Client, sessionId: string, timeoutMs: number): Promise<QueriedState | UnopenedState> {
  return ask(client, { sessionId }, [QUERIES.state], timeoutMs)
}

/** Repeats a query that a worker refused because a workflow task was in progress. Such a task completes or is abandoned within seconds. */
async function ask<R>(
  client: Client,
  { sessionId, executionId }: QueriedExecution,
  query: [string, ...unknown[]],
  timeoutMs: number,
): Promise<R> {
  const handle = client.workflow.getHandle(workflowIdOf(sessionId), executionId)
  for (const endsAt = Date.now() + timeoutMs; ; await sleep(RETRY_AFTER_MS)) {
    try {
      return await client.withDeadline(endsAt, () => handle.query<R, unknown[]>(...query))
    } catch (error) {
      if (!isRefused(error) || Date.now() + RETRY_AFTER_MS >= endsAt) throw error
    }
  }
}

/** The SDK's client throws one class for every query that a worker fails. */
const isRefused = (error: unknown): boolean => error instanceof QueryNotRegisteredError && isRefusal(error.message)

/** Whether a query's failure means that the query must be repeated. */
export const isRefusal = (message: string): boolean => message.includes(NOT_COMMITTED) || message.includes(OUTDATED)
