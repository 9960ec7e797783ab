// The open sessions of a task queue, as Temporal knows them, and which of them cannot take their next step.
import type { Client } from '@temporalio/client'
import { onTemporal } from '../../connect/deadline.ts'
import { sessionIdOf, WORKFLOW_TYPE } from '../../session/protocol/protocol.ts'
import { type ExecutionState, executionStateOf, lastingHoldUp } from '../session/hold-ups.ts'

const CALLS_MS = 10_000

/** The open sessions: how many there are, and the newest of them. */
export interface OpenSessions {
  count: number
  newest: OpenSession[]
}

/** An open session. */
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

/** Those of the sessions that wait for a worker, or that no worker can continue. */
export async function heldUpAmong(client: Client, ids: readonly string[]): Promise<HeldUpSession[]> {
  const examined = await executionsOf(client, ids)
  return examined.flatMap(({ sessionId, execution }) => {
    const waitsFor = execution?.open ? (lastingHoldUp(execution)?.waitsFor ?? unservedStep(execution)) : undefined
    return waitsFor === undefined ? [] : [{ sessionId, waitsFor }]
  })
}

/** Busy workers may leave a step for a moment, and during a deploy the next attempt may reach a build that serves it. */
const SERVED_WITHIN_MS = 10_000
const SERVED_BY_ATTEMPT = 3

/** The step that no worker takes, or that every worker hands back, as what it waits for. */
function unservedStep({ steps, taskQueue }: ExecutionState & { open: true }): string | undefined {
  const unserved = steps.find(({ attempt, since = Date.now(), heldUp }) => {
    if (heldUp?.for !== 'worker') return false
    return heldUp.reason === undefined ? Date.now() - since >= SERVED_WITHIN_MS : attempt >= SERVED_BY_ATTEMPT
  })
  if (!unserved) return undefined
  const reason = unserved.heldUp?.reason
  return `a worker on task queue "${taskQueue}"${reason === undefined ? '' : ` (${reason})`}`
}

/** Those of the sessions whose workflow has ended. One that the server no longer knows, or never knew, is not among them. */
export async function endedAmong(client: Client, ids: readonly string[]): Promise<string[]> {
  const examined = await executionsOf(client, ids)
  return examined.flatMap(({ sessionId, execution }) => (execution?.open === false ? [sessionId] : []))
}

function executionsOf(client: Client, ids: readonly string[]): Promise<{ sessionId: string; execution: ExecutionState | undefined }[]> {
  return Promise.all(
    ids.map(async (sessionId) => ({ sessionId, execution: await executionStateOf(client, sessionId).catch(() => undefined) })),
  )
}
