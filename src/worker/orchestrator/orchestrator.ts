// An orchestrator: the Temporal worker with everything that belongs to pawl, and no user code. Its executors run the jobs.
import { hostname } from 'node:os'
import { Client } from '@temporalio/client'
import type { InjectedSinks, NativeConnection } from '@temporalio/worker'
import { blobStore } from '../../activities/blobs.ts'
import { startFlusher } from '../../activities/flusher.ts'
import { createActivities } from '../../activities/index.ts'
import { sessionReader } from '../../activities/session-reader.ts'
import type { Logger } from '../../agent/tool.ts'
import { DEFAULT_TASK_QUEUE, sessionIdOf } from '../../session/protocol/protocol.ts'
import type { Store } from '../../store/store.ts'
import type { PawlSinks } from '../../workflows/journal.ts'
import type { CreateWorkerOptions } from '../options.ts'
import type { CachedExecution, FromExecutor, ToExecutor } from '../protocol.ts'
import type { TelemetrySettings } from '../telemetry-settings.ts'
import type { Channel } from '../channel.ts'
import { adoptionBy } from './executors/adoption.ts'
import { outerConverter } from './temporal/bundle.ts'
import { createWorkers, type TemporalWorker } from './temporal/workers.ts'
import { eventsFrom } from './executors/events-along.ts'
import { deltaWriter } from './delta-writer.ts'
import { detailsBy } from './heartbeats/details.ts'
import { dispatcherTo } from './executors/dispatch.ts'
import { memoryLog } from './event-log.ts'
import { type FailingNotes, startHealing } from './healing/healing.ts'
import { publishEvents } from './events-channel.ts'
import { keepLimits } from './call-limits.ts'
import { keepSharedBudgets } from './shared-budgets.ts'
import { keepGates } from './rate-gates/gate-keeper.ts'
import { type FromSender, heartbeatSender, sendBy, type ToSender } from './heartbeats/heartbeats.ts'
import { startLeases } from './heartbeats/leases.ts'
import type { Executor } from './executors/executor-state.ts'
import { type Pool, type PoolNeeds, startPool } from './executors/pool.ts'
import { contextRulesIn } from './context-rules.ts'
import { requestsOver } from './executors/requests.ts'
import type { SdkRuntime } from './temporal/sdk-runtime.ts'
import { snapshotsInto } from './slice-snapshots.ts'
import { type AppendedEvents, startSessionLog } from './log/session-log.ts'
import { sendWebhooks } from './webhooks/webhooks.ts'
import { webhookTargets } from '../webhook-targets.ts'
import { prepareTelemetry } from './telemetry/index.ts'
import { probeOf } from './temporal/outages.ts'

export interface OrchestratorParts
  extends Pick<CreateWorkerOptions, 'taskQueue' | 'dataConverter' | 'interceptors' | 'tuner'>,
    Pick<PoolNeeds, 'size' | 'kill' | 'onDrained' | 'onReady' | 'onJob' | 'onDeath'> {
  connection: NativeConnection
  /** Host and port of the server, if known. */
  address?: string
  namespace: string
  store: Store
  logger: Logger
  sdk: SdkRuntime
  /** Which telemetry is on; absent if none is. */
  telemetry?: TelemetrySettings | undefined
  /** The sending half of heartbeats, if it runs outside this event loop. Returns the function that accepts its messages. */
  heartbeats?: (post: (message: FromSender) => void) => (message: ToSender) => void
  /** See `UserCode`. */
  bundleFolder?: string
  /** The orchestrator's identity on the server, and those of this worker's orchestrators before it, which are dead. */
  identity: string
  predecessors?: readonly string[]
  /** How long a session's task may keep failing before the session continues in a new execution; false means forever. */
  healAfterMs: number | false
  /** Absent if no other orchestrator of this worker comes before or after this one. */
  failing?: FailingNotes
  /** Called for each execution whose events pass through here, with their last `seq`. */
  onExecution?: (execution: CachedExecution & { seq: number }) => void
}

/** An orchestrator that holds its executors and sends the heartbeats of their attempts, but does not poll yet. */
export interface Orchestrator {
  client: Client
  pool: Pool
  /** Whether an executor got the job from an earlier orchestrator. */
  hasAdopted(activity: CachedExecution & { activityId: string }): boolean
  /** Connects the executor at the other end of the channel. */
  connect(channel: Channel<FromExecutor, ToExecutor>): void
  /**
   * Creates the Temporal workers, once. This takes as long as everything else at startup, or seconds longer if the user's own converter or
   * interceptors have to be bundled: executors connect first, so that no attempt misses its heartbeats.
   */
  createTemporalWorker(): Promise<TemporalWorker>
  /** Ends the orchestrator, after flushes in progress. */
  settle(): Promise<void>
}

const NO_NOTES: FailingNotes = { earlier: [], note: () => undefined, forget: () => undefined }

export async function prepareOrchestrator(parts: OrchestratorParts): Promise<Orchestrator> {
  const { store, logger, sdk, connection, namespace, taskQueue = DEFAULT_TASK_QUEUE } = parts
  const worker = `${hostname()}:${process.pid}`
  const targets = webhookTargets()
  // This throws if a package is missing, so it comes before anything that must be closed.
  const telemetry = await prepareTelemetry({ settings: parts.telemetry, store, logger, worker })
  const dataConverter = outerConverter(parts)
  const client = new Client({ connection, namespace, dataConverter })
  const log = memoryLog()
  const blobs = blobStore(store, logger)
  const reader = sessionReader(log, store)
  const flusher = startFlusher(store, reader, logger, (target, entries) => snapshots.stored(target, entries))
  const heartbeats = parts.heartbeats ?? ((back: (message: FromSender) => void) => heartbeatSender(sendBy(client), back))
  const leases = startLeases(
    heartbeats((message) => leases.receive(message)),
    detailsBy(client.options.loadedDataConverter),
    store.watchStops,
  )
  const { kill, onDrained, onReady, onJob, onDeath } = parts
  let isServing = false
  const serve = (executor: Executor): void => {
    executor.channel.send({ type: 'serving' })
    onReady?.(executor)
  }
  const gates = keepGates({ store, executors: () => pool.executors(), logger, worker })
  const shared = keepSharedBudgets({ store, executors: () => pool.executors(), logger })
  const limits = keepLimits({ store, logger })
  const deltas = deltaWriter(store, logger)
  const pool = startPool({
    size: parts.size,
    deltas,
    eventsFor: eventsFrom(log),
    answerRequest: requestsOver({ reader, values: blobs, gates, limits, rules: contextRulesIn({ store, logger }), shared, client }),
    gates,
    shared,
    onSnapshots: (sessionId, some) => snapshots.arrived(sessionId, some),
    logger,
    ...(telemetry.jobs && { measured: telemetry.jobs }),
    ...(kill && { kill }),
    ...(onDrained && { onDrained }),
    onReady(executor) {
      gates.greet(executor)
      shared.greet(executor)
      if (isServing) serve(executor)
    },
    ...(onJob && { onJob }),
    ...(onDeath && { onDeath }),
  })
  const snapshots = snapshotsInto(store, () => pool.executors(), logger)
  const { dispatch, adopt } = dispatcherTo(pool, leases)
  const needs = { client, store, logger, worker, dispatch }
  const activities = createActivities(needs, reader, flusher)
  let endWebhooks = async (): Promise<void> => undefined
  const endTelemetry = telemetry.start({ pool, temporal: sdk })
  const answerFor = adoptionBy(client, logger)
  const adopted = new Set<string>()
  const { healAfterMs: afterMs, failing: notes = NO_NOTES } = parts
  const healing = afterMs === false ? undefined : startHealing({ client, taskQueue, logger, afterMs, notes })
  const endWatch = sdk.watch({ address: parts.address ?? 'the address of your connection', probe: probeOf(connection) })

  /** Any worker on the queue may have the session's attempts. */
  function stopRequested(sessionId: string): void {
    leases.askForStops(sessionId)
    store.notifyStop(sessionId)
  }

  async function createTemporalWorker(): Promise<TemporalWorker> {
    await shared.learned()
    const both = await createWorkers({
      ...parts,
      taskQueue,
      client,
      activities,
      ...(healing && { onFailed: healing.suspect }),
      sinks: sinksOf(log, stopRequested, {
        onExecution(execution) {
          sdk.noteExecution(execution.executionId, sessionIdOf(execution.workflowId))
          parts.onExecution?.(execution)
        },
        logEvents: startSessionLog({ logger, modelOf: modelsIn(pool) }),
      }),
    })
    return {
      ...both,
      run() {
        isServing = true
        for (const executor of pool.executors()) serve(executor)
        healing?.serving()
        if (targets !== 'off') {
          const { identity: holder, predecessors: succeeds } = parts
          endWebhooks = sendWebhooks({ store, logger, holder, succeeds, allowsPrivate: targets === 'private' })
        }
        return both.run()
      },
    }
  }

  return {
    client,
    pool,
    hasAdopted: (activity) => adopted.has(nameOf(activity)),
    connect: (channel) =>
      pool.connect(channel, (executor, held) => {
        adopted.add(nameOf(held.order.ticket))
        answerFor(held, adopt(executor, held))
      }),
    createTemporalWorker,
    async settle() {
      endWatch()
      healing?.end()
      gates.end()
      shared.end()
      await endWebhooks()
      await flusher.idle()
      await deltas.settle()
      await endTelemetry()
    },
  }
}

const nameOf = ({ executionId, activityId }: { executionId: string; activityId: string }): string => `${executionId}/${activityId}`

/** The model of an agent, according to the newest executor that has the agent. */
function modelsIn(pool: Pool): (agent: string) => string | undefined {
  return (agent) => [...pool.executors()].findLast(({ models }) => models.has(agent))?.models.get(agent)
}

interface Listeners extends Required<Pick<OrchestratorParts, 'onExecution'>> {
  logEvents(appended: AppendedEvents): void
}

function sinksOf(
  log: ReturnType<typeof memoryLog>,
  stopRequested: (sessionId: string) => void,
  { onExecution, logEvents }: Listeners,
): InjectedSinks<PawlSinks> {
  return {
    pawl: {
      append: {
        callDuringReplay: true,
        fn({ workflowId, runId, unsafe }, epoch, entries, background) {
          const sessionId = sessionIdOf(workflowId)
          log.append({ sessionId, epoch }, entries, unsafe.isReplayingHistoryEvents ? 'accepted' : 'in_task')
          publishEvents({ sessionId, entries })
          onExecution({ workflowId, executionId: runId, seq: entries.at(-1)?.seq ?? 0 })
          logEvents({ sessionId, entries, background, isReplaying: unsafe.isReplayingHistoryEvents })
        },
      },
      stop: { callDuringReplay: false, fn: ({ workflowId }) => stopRequested(sessionIdOf(workflowId)) },
    },
  }
}
