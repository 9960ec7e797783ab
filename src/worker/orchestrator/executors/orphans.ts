// Ends attempts of a dead orchestrator that no executor has, because it had not dispatched them or their executor died, too. Otherwise, the
// server would wait for their heartbeat timeout.
import { hostname } from 'node:os'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import type { ApplicationFailure } from '@temporalio/common'
import type { Logger } from '../../../agent/tool.ts'
import { decoded } from '../../../connect/decoded.ts'
import { JOB_KINDS, type JobKind } from '../../../calls/jobs.ts'
import { readReport } from '../../../session/attempts.ts'
import { sessionIdOf } from '../../../session/protocol/protocol.ts'
import type { CachedExecution } from '../../protocol.ts'
import { diedUnreported, diedUnseen, neverDispatched } from './failures.ts'

/** The state of an attempt that the server has assigned to a worker. */
const STARTED = 2

/**
 * The identity of an orchestrator on the server. `workerSecret`: a secret of the worker's processes. Host name and pid do not suffice, because
 * containers may share a host name and number their processes from 1.
 */
export function identityOf(pid: number, workerSecret: string): string {
  return `pawl:${hostname()}:${pid}:${workerSecret}`
}

/** The dead orchestrators and executors of a worker, and which of their attempts executors still hold. */
export interface OrphanedWork {
  workerSecret: string
  /** Pids of dead orchestrators. */
  predecessors: readonly number[]
  /** Pids of dead executors. */
  exited: readonly number[]
  /** Whether one of them may have held attempts, and have begun them, without any orchestrator seeing it die. */
  mayHaveHeld: boolean
  isHeld(activity: CachedExecution & { activityId: string }): boolean
}

/**
 * Makes the workflow immediately retry attempts that no executor has: a call's first attempt without a heartbeat, which counts as lost if an
 * executor has died that may have had it, and attempts whose heartbeats name a dead executor. Never rejects.
 */
export async function releaseOrphans(
  client: Client,
  { workflowId, executionId }: CachedExecution,
  { workerSecret, predecessors, exited, mayHaveHeld, isHeld }: OrphanedWork,
  logger: Logger,
): Promise<void> {
  const dead = new Set(predecessors.map((pid) => identityOf(pid, workerSecret)))
  const deadExecutors = new Set(exited.map((pid) => `${hostname()}:${pid}`))
  try {
    const { raw } = await client.workflow.getHandle(workflowId, executionId).describe()
    for (const { activityId, activityType, state, attempt, heartbeatDetails, lastWorkerIdentity } of raw.pendingActivities ?? []) {
      if (!activityId || state !== STARTED) continue
      const kind = activityType?.name ?? ''
      if (!dead.has(lastWorkerIdentity ?? '') || !isJob(kind)) continue
      if (isHeld({ workflowId, executionId, activityId })) continue
      const [details] = heartbeatDetails?.payloads ?? []
      const failure = details
        ? deathIn(kind, await decoded(client.options.loadedDataConverter, details), deadExecutors)
        : attempt === 1
          ? // The first heartbeat is sent after seconds, and the body may have been entered before.
            mayHaveHeld
            ? diedUnreported(kind)
            : neverDispatched(kind)
          : undefined
      if (failure) await client.activity.fail({ workflowId, runId: executionId, activityId }, failure)
    }
  } catch (err) {
    // The attempt was answered, or the session has closed. In any other case, the heartbeat timeout ends the attempt.
    if (!(err instanceof ActivityNotFoundError))
      logger.debug({ err, session: sessionIdOf(workflowId) }, 'could not look up attempts that no process holds')
  }
}

function deathIn(kind: JobKind, details: unknown, dead: ReadonlySet<string>): ApplicationFailure | undefined {
  const { report } = readReport(details)
  return report?.executor !== undefined && dead.has(report.executor) ? diedUnseen(kind, report, report.executor) : undefined
}

const isJob = (name: string): name is JobKind => JOB_KINDS.some((kind) => kind === name)
