// Attempts that a dead orchestrator had received but not dispatched: without help, the server would wait for their heartbeat timeout.
import { hostname } from 'node:os'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import type { Logger } from '../../agent/tool.ts'
import type { JobKind } from '../../jobs/contract.ts'
import { sessionIdOf } from '../../session/protocol.ts'
import type { CachedExecution } from '../protocol.ts'
import { neverGiven } from './failures.ts'

const JOBS: Readonly<Record<JobKind, true>> = {
  callModel: true,
  executeTool: true,
  verifyTool: true,
  resolveTool: true,
  checkAnswer: true,
  endHooks: true,
}
/** The server's state of an attempt that was assigned to a worker. */
const STARTED = 2

/** The identity of an orchestrator on the server. */
export function identityOf(pid: number): string {
  return `pawl:${hostname()}:${pid}`
}

/** The dead orchestrators, and the attempts of theirs that executors still hold. */
export interface Orphaned {
  predecessors: readonly number[]
  isHeld(activity: CachedExecution & { activityId: string }): boolean
}

/**
 * Makes the workflow retry at once what no executor has. Applies only to a call's first attempt without any heartbeat: for any other, the
 * heartbeats have the report for the workflow. Never rejects.
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
    // The attempt was answered, or the session has closed. Otherwise the heartbeat timeout ends the attempt.
    if (!(err instanceof ActivityNotFoundError))
      logger.debug({ err, session: sessionIdOf(workflowId) }, 'could not look for attempts that no process has')
  }
}

const isJob = (name: string): name is JobKind => Object.hasOwn(JOBS, name)
