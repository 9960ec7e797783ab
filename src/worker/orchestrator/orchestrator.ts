// An orchestrator: the Temporal worker with everything that belongs to pawl, and no user code. Its executors carry out the jobs.
import { hostname } from 'node:os'
import { Client } from '@temporalio/client'
import type { DataConverter } from '@temporalio/common'
import { type InjectedSinks, type NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker'
import { blobShelf } from '../../activities/blobs.ts'
import { startFlusher } from '../../activities/flusher.ts'
import { createActivities } from '../../activities/index.ts'
import { sessionReader } from '../../activities/session-reader.ts'
import type { Logger } from '../../agent/tool.ts'
import { DEFAULT_TASK_QUEUE, sessionIdOf } from '../../session/protocol.ts'
import type { Store } from '../../store/store.ts'
import type { PawlSinks } from '../../workflows/journal.ts'
import type { CreateWorkerOptions } from '../options.ts'
import type { CachedExecution, FromExecutor, ToExecutor } from '../protocol.ts'
import type { Channel } from '../channel.ts'
import { adoptionBy } from './adoption.ts'
import { workflowBundle } from './bundle.ts'
import { eventsFrom } from './events-along.ts'
import { detailsBy, totalCodecs } from './details.ts'
import { memoryLog } from './event-log.ts'
import { publishEvents } from './events-channel.ts'
import { type FromSender, heartbeatSender, sendBy, type ToSender } from './heartbeats.ts'
import { lateAnswers } from './late-answers.ts'
import { startLeases } from './leases.ts'
import { type Pool, type PoolNeeds, startPool } from './pool.ts'
import { requestsOver } from './requests.ts'

/** A dead process's sessions wait this long for another one, where nobody resets their stickiness. */
const STICKY_TIMEOUT_MS = 2_000
/**
 * Of one activation of a workflow, by the wall's clock. The SDK's 5 s are soon over on a machine that is too busy, or for a session that
 * was sent a thousand messages at once, and cutting it off there takes the whole process along (Node finds its async hooks corrupted).
 */
const ACTIVATION_TIMEOUT = '60s'

/** What an orchestrator is made of. */
export interface OrchestratorParts
  extends
    Pick<CreateWorkerOptions, 'taskQueue' | 'dataConverter' | 'interceptors' | 'tuner'>,
    Pick<PoolNeeds, 'kill' | 'onDrained' | 'onReady' | 'onJob' | 'onDeath'> {
  connection: NativeConnection
  namespace: string
  store: Store
  logger: Logger
  /** What sends heartbeats, where it is not this event loop: returns what takes messages for it. */
  heartbeats?: (post: (message: FromSender) => void) => (message: ToSender) => void
  /** Told of each execution whose events pass through here. */
  onExecution?: (execution: CachedExecution) => void
}

/** An orchestrator, created and not yet polling. */
export interface Orchestrator {
  client: Client
  worker: Worker
  pool: Pool
  /** Serves through an executor at the other end. */
  connect(channel: Channel<FromExecutor, ToExecutor>): void
  /** Waits for flushes that are running. */
  settle(): Promise<void>
}

/** Creates an orchestrator. */
export async function createOrchestrator(parts: OrchestratorParts): Promise<Orchestrator> {
  const { store, logger, connection, namespace, interceptors, tuner } = parts
  const bundle = await workflowBundle({
    payloadConverterPath: parts.dataConverter?.payloadConverterPath,
    workflowInterceptors: interceptors?.workflowModules,
  })
  const dataConverter: DataConverter = {
    ...parts.dataConverter,
    payloadConverterPath: bundle.payloadConverterPath,
    ...(parts.dataConverter?.payloadCodecs && { payloadCodecs: totalCodecs(parts.dataConverter.payloadCodecs) }),
  }
  const client = new Client({ connection, namespace, dataConverter })
  const log = memoryLog()
  const shelf = blobShelf(store, logger)
  const reader = sessionReader(log, store)
  const flusher = startFlusher(store, reader, logger)
  const heartbeats = parts.heartbeats ?? ((back: (message: FromSender) => void) => heartbeatSender(sendBy(client), back))
  const leases = startLeases(
    heartbeats((message) => leases.receive(message)),
    detailsBy(client.options.loadedDataConverter),
  )
  const { kill, onDrained, onReady, onJob, onDeath } = parts
  const pool = startPool({
    leases,
    eventsFor: eventsFrom(log),
    answerRequest: requestsOver(reader, shelf, client),
    logger,
    ...(kill && { kill }),
    ...(onDrained && { onDrained }),
    ...(onReady && { onReady }),
    ...(onJob && { onJob }),
    ...(onDeath && { onDeath }),
  })
  const worker = `${hostname()}:${process.pid}`
  const needs = {
    client,
    store,
    log,
    logger,
    worker,
    dispatch: pool.dispatch,
    announce: (order: Parameters<typeof pool.dispatch>[0]) => announce(leases, order.ticket),
  }
  const { workflowModules: _, ...workerInterceptors } = interceptors ?? {}
  const temporal = await Worker.create({
    connection,
    namespace,
    taskQueue: parts.taskQueue ?? DEFAULT_TASK_QUEUE,
    workflowBundle: bundle.workflowBundle,
    dataConverter,
    activities: { ...createActivities(needs, reader, flusher) },
    sinks: sinksOf(log, parts.onExecution),
    identity: `pawl:${worker}`,
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT_MS,
    isolateExecutionTimeout: ACTIVATION_TIMEOUT,
    // Draining waits for what is held; whoever waits for the process decides when it has been long enough.
    shutdownGraceTime: '1 day',
    interceptors: {
      ...workerInterceptors,
      activity: [lateAnswers({ connection, client, logger }), ...(workerInterceptors.activity ?? [])],
    },
    ...(tuner ? { tuner } : {}),
  } satisfies WorkerOptions & { isolateExecutionTimeout: string } as WorkerOptions)
  const adopt = adoptionBy(client, logger)
  return {
    client,
    worker: temporal,
    pool,
    connect: (channel) => pool.connect(channel, adopt),
    settle: () => flusher.idle(),
  }
}

/** If the server cannot be reached, the attempt begins all the same: lost, it would count as one that never began. */
async function announce(leases: ReturnType<typeof startLeases>, ticket: Parameters<typeof leases.take>[0]): Promise<void> {
  const lease = leases.take(ticket, () => undefined)
  await lease.announce().catch(() => undefined)
  lease.release()
}

function sinksOf(log: ReturnType<typeof memoryLog>, onExecution: OrchestratorParts['onExecution']): InjectedSinks<PawlSinks> {
  return {
    pawl: {
      append: {
        callDuringReplay: true,
        fn({ workflowId, runId }, epoch, entries) {
          const sessionId = sessionIdOf(workflowId)
          log.append({ sessionId, epoch }, entries)
          publishEvents({ sessionId, entries })
          onExecution?.({ workflowId, executionId: runId })
        },
      },
    },
  }
}
