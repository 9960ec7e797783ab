// The two Temporal workers of an orchestrator: one for sessions and user code, one for pawl's own activities.
import type { Client } from '@temporalio/client'
import { DefaultLogger, type InjectedSinks, type NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker'
import type { createActivities } from '../../../activities/index.ts'
import type { Logger } from '../../../agent/tool.ts'
import { JOB_KINDS } from '../../../calls/jobs.ts'
import { ownTaskQueue } from '../../../session/protocol/protocol.ts'
import type { PawlSinks } from '../../../workflows/journal.ts'
import type { CreateWorkerOptions } from '../../options.ts'
import { lateAnswers } from '../heartbeats/late-answers.ts'
import { byTaskQueue } from './own-activities.ts'
import { type UserCode, workflowCode } from './bundle.ts'
import { SessionsWorker } from './sessions-worker.ts'
import { thrownErrors } from './thrown-errors.ts'
import { created } from './created.ts'
import { ownTuner } from './workflow-slots.ts'

/** How long the sessions of a dead process wait for another process if their stickiness is not reset. */
const STICKY_TIMEOUT_MS = 2_000

/** Concurrent polls for pawl's own activities; user code uses the SDK's default. */
const OWN_POLLS = 2

/** The two Temporal workers of an orchestrator, as one. */
export interface TemporalWorker {
  /** Polls until `shutdown`; rejects if either fails. */
  run(): Promise<void>
  shutdown(): void
  state(): string
  status(): { activities: number; sessions: number }
}

interface WorkersNeeds extends Pick<CreateWorkerOptions, 'dataConverter' | 'interceptors' | 'tuner'> {
  bundleFolder?: string
  client: Client
  connection: NativeConnection
  namespace: string
  identity: string
  taskQueue: string
  logger: Logger
  activities: ReturnType<typeof createActivities>
  sinks: InjectedSinks<PawlSinks>
  onFailed?: Parameters<SessionsWorker['onFailed']>[0]
}

/** Does in advance what takes longest when a worker is created, without the server: reads the workflow code into threads. */
export async function prepareWorkers(user: UserCode, logger: Logger): Promise<void> {
  const { workflowBundle } = await workflowCode(user)
  await SessionsWorker.prepare(
    workflowBundle,
    JOB_KINDS,
    new DefaultLogger('ERROR', ({ message, meta }) => logger.error(meta ?? {}, message)),
  )
}

export async function createWorkers(needs: WorkersNeeds): Promise<TemporalWorker> {
  const { client, connection, namespace, identity, taskQueue, logger, interceptors, tuner } = needs
  const { workflowBundle, buildId, dataConverter } = await workflowCode(needs)
  const { workflowModules: _, ...workerInterceptors } = interceptors ?? {}
  const { own: ownActivities, userCode } = byTaskQueue(needs.activities)
  const common = {
    connection,
    namespace,
    dataConverter,
    identity,
    buildId,
    // Draining waits for all jobs. The parent decides when it has taken too long.
    shutdownGraceTime: '1 day',
    interceptors: {
      ...workerInterceptors,
      activity: [lateAnswers({ connection, client, logger }), thrownErrors, ...(workerInterceptors.activity ?? [])],
    },
  } satisfies Partial<WorkerOptions>
  const sessionsTuner = tuner ?? ownTuner()
  const sessions = (await created(() =>
    SessionsWorker.create({
      ...common,
      taskQueue,
      workflowBundle,
      activities: userCode,
      sinks: needs.sinks,
      stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT_MS,
      tuner: sessionsTuner,
    }),
  )) as SessionsWorker
  if (needs.onFailed) sessions.onFailed(needs.onFailed)
  const own = await created(() =>
    Worker.create({
      ...common,
      taskQueue: ownTaskQueue(taskQueue),
      activities: ownActivities,
      maxConcurrentActivityTaskPolls: OWN_POLLS,
    }),
  )
  return bothOf(sessions, own)
}

function bothOf(sessions: Worker, own: Worker): TemporalWorker {
  const stop = (worker: Worker): void => {
    if (worker.getState() === 'RUNNING') worker.shutdown()
  }
  const stopBoth = (): void => {
    stop(sessions)
    stop(own)
  }
  let isStopped = false
  return {
    async run() {
      const running = [sessions.run(), own.run()]
      // Workers that are stopped before they run must run for a moment. Otherwise, the SDK does not release the connection.
      if (isStopped) stopBoth()
      try {
        await Promise.all(running)
      } finally {
        // If one worker fails, the other is stopped, too.
        stopBoth()
        await Promise.allSettled(running)
      }
    },
    shutdown() {
      isStopped = true
      stopBoth()
    },
    state: () => sessions.getState().toLowerCase(),
    status() {
      const { numInFlightActivities, numCachedWorkflows } = sessions.getStatus()
      return { activities: numInFlightActivities, sessions: numCachedWorkflows }
    },
  }
}
