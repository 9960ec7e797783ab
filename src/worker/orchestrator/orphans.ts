// Attempts that a dead orchestrator was handed and had given to no executor: the server would wait for their heartbeats in vain.
import { hostname } from 'node:os'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import type { Logger } from '../../agent/tool.ts'
import type { JobKind } from '../../jobs/contract.ts'
import type { CachedExecution } from '../protocol.ts'
import { neverGiven } from './failures.ts'

const JOBS: Readonly<Record<JobKind, true>> = { callModel: true, executeTool: true, verifyTool: true, resolveTool: true, checkAnswer: true }
/** The server's word for an attempt that a worker was handed. */
const STARTED = 2

/** How an orchestrator names itself to the server. */
export function identityOf(pid: number): string {
  return `pawl:${hostname()}:${pid}`
}

/** Which orchestrators are dead, and what lives on of what they were handed. */
export interface Orphaned {
  predecessors: readonly number[]
  isHeld(activity: CachedExecution & { activityId: string }): boolean
}

/**
 * Has the workflow ask again at once for what no executor has. Only a call's first attempt that no heartbeat told of: of any other,
 * its heartbeats know what the workflow is to be told. Never rejects.
 */
export async function releaseOrphans(
  client: Client,
  { workflowId, executionId }: CachedExecution,
  { predecessors, isHeld }: Orphaned,
  logger: Logger,
): Promise<void> {
  const dead = new Set(predecessors.map(identityOf))
  try {
    const { raw } = await client.workflow.getHandle(workflowId, executionId).describe()
    for (const { activityId, activityType, state, attempt, heartbeatDetails, lastWorkerIdentity } of raw.pendingActivities ?? []) {
      if (!activityId || state !== STARTED || attempt !== 1 || heartbeatDetails?.payloads?.length) continue
      const kind = activityType?.name ?? ''
      if (!dead.has(lastWorkerIdentity ?? '') || !isJob(kind)) continue
      if (isHeld({ workflowId, executionId, activityId })) continue
      await client.activity.fail({ workflowId, runId: executionId, activityId }, neverGiven(kind))
    }
  } catch (err) {
    // Somebody else has answered for it, or the session has closed: else the attempt's heartbeat timeout ends it.
    if (!(err instanceof ActivityNotFoundError)) logger.debug({ err, workflowId }, 'could not look for attempts that nobody has')
  }
}

const isJob = (name: string): name is JobKind => Object.hasOwn(JOBS, name)
