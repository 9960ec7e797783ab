// The open sessions of a task queue, as Temporal knows them, and which of them cannot take their next step.
import type { Client } from '@temporalio/client'
import { onTemporal } from '../../connect/deadline.ts'
import { sessionIdOf, WORKFLOW_TYPE } from '../../session/protocol/protocol.ts'
import { type ExecutionState, executionStateOf, stuckOn } from '../session/hold-ups.ts'

const CALLS_MS = 10_000

/** The open sessions: how many there are, and the newest of them. */
export interface OpenSessions {
  count: number
  newest: OpenSession[]
}

export interface OpenSession {
  sessionId: string
  /** When its newest execution started. */
  startedAt: Date
}

/** A session that cannot take its next step. */
export interface HeldUpSession {
  sessionId: string
  waitsFor: string
}

/** Reads the open sessions; `most`: how many of the newest are named. */
export async function openSessions(client: Client, taskQueue: string, most: number): Promise<OpenSessions> {
  const query = `WorkflowType = '${WORKFLOW_TYPE}' and ExecutionStatus = 'Running' and TaskQueue = '${taskQueue.replaceAll("'", "''")}'`
  return onTemporal(
    client,
    async () => {
      const { count } = await client.workflow.count(query)
      const newest: OpenSession[] = []
      for await (const { workflowId, startTime: startedAt } of client.workflow.list({ query, pageSize: most })) {
        if (newest.push({ sessionId: sessionIdOf(workflowId), startedAt }) === most) break
      }
      return { count, newest }
    },
    CALLS_MS,
  )
}

/** The sessions among `ids` that wait for a worker, or that no worker can continue. */
export async function heldUpAmong(client: Client, ids: readonly string[]): Promise<HeldUpSession[]> {
  const examined = await executionsOf(client, ids)
  return examined.flatMap(({ sessionId, execution }) => {
    const waitsFor = execution?.open ? stuckOn(execution)?.waitsFor : undefined
    return waitsFor === undefined ? [] : [{ sessionId, waitsFor }]
  })
}

/** The sessions among `ids` whose workflow has ended. Excludes those that the server no longer knows, or never knew. */
export async function endedAmong(client: Client, ids: readonly string[]): Promise<string[]> {
  const examined = await executionsOf(client, ids)
  return examined.flatMap(({ sessionId, execution }) => (execution?.open === false ? [sessionId] : []))
}

function executionsOf(client: Client, ids: readonly string[]): Promise<{ sessionId: string; execution: ExecutionState | undefined }[]> {
  return Promise.all(
    ids.map(async (sessionId) => ({ sessionId, execution: await executionStateOf(client, sessionId).catch(() => undefined) })),
  )
}
