// A Temporal worker that serves agents: what `createWorker` and the supervised process have in common.
import { hostname } from 'node:os'
import { type InjectedSinks, NativeConnection, Worker, type WorkerOptions } from '@temporalio/worker'
import { createActivities } from '../activities/index.ts'
import type { Beats, EventLog, LogKey } from '../activities/needs.ts'
import type { Agent } from '../agent/agent.ts'
import type { Logger, Services } from '../agent/tool.ts'
import type { LogEntry } from '../session/events.ts'
import { DEFAULT_TASK_QUEUE, sessionIdOf } from '../session/protocol.ts'
import type { Store } from '../store/store.ts'
import type { PawlSinks } from '../workflows/journal.ts'
import { workflowBundle } from './bundle.ts'
import { lateAnswers } from './late-answers.ts'
import type { CreateWorkerOptions } from './options.ts'

/** A dead process's sessions wait this long for another one, where no supervisor resets their stickiness. */
const STICKY_TIMEOUT_MS = 2_000
/**
 * Of one activation of a workflow, by the wall's clock. The SDK's 5 s are soon over on a machine that is too busy, or for a session that
 * was sent a thousand messages at once, and cutting it off there takes the whole process along (Node finds its async hooks corrupted).
 */
const ACTIVATION_TIMEOUT = '60s'

/** The parts that a serving process is given. */
export interface ServeOptions extends Pick<CreateWorkerOptions, 'taskQueue' | 'dataConverter' | 'interceptors' | 'tuner'> {
  connection: NativeConnection
  namespace: string
  agents: readonly Agent[]
  services: Services
  store: Store
  log: EventLog
  beats: Beats
  logger: Logger
  /** Told of each batch of events that this process's workflows make. */
  onEvents?: (key: LogKey, entries: LogEntry[], execution: { workflowId: string; executionId: string }) => void
}

/** A worker, created and not yet polling, and what must end after it. */
export interface Serving {
  worker: Worker
  /** Waits for flushes that are going on. */
  settle(): Promise<void>
}

/** This process, for people. */
const workerName = `${hostname()}:${process.pid}`

/** Creates the worker. */
export async function serve(options: ServeOptions): Promise<Serving> {
  const { connection, namespace, log, dataConverter, interceptors, tuner } = options
  const { activities, flusher } = createActivities({
    agents: new Map(options.agents.map((agent) => [agent.name, agent])),
    services: options.services,
    store: options.store,
    log,
    beats: options.beats,
    logger: options.logger,
    worker: workerName,
  })
  const bundle = await workflowBundle({
    payloadConverterPath: dataConverter?.payloadConverterPath,
    workflowInterceptors: interceptors?.workflowModules,
  })
  const { workflowModules: _, ...workerInterceptors } = interceptors ?? {}
  const converter = { ...dataConverter, payloadConverterPath: bundle.payloadConverterPath }
  const worker = await Worker.create({
    connection,
    namespace,
    taskQueue: options.taskQueue ?? DEFAULT_TASK_QUEUE,
    workflowBundle: bundle.workflowBundle,
    dataConverter: converter,
    activities: { ...activities },
    sinks: sinksOf(options),
    identity: `pawl:${workerName}`,
    stickyQueueScheduleToStartTimeout: STICKY_TIMEOUT_MS,
    isolateExecutionTimeout: ACTIVATION_TIMEOUT,
    // Draining waits for what is held; whoever waits for the process decides when it has been long enough.
    shutdownGraceTime: '1 day',
    interceptors: {
      ...workerInterceptors,
      activity: [
        lateAnswers({ connection, namespace, dataConverter: converter, logger: options.logger }),
        ...(workerInterceptors.activity ?? []),
      ],
    },
    ...(tuner ? { tuner } : {}),
  } satisfies WorkerOptions & { isolateExecutionTimeout: string } as WorkerOptions)
  return { worker, settle: () => flusher.idle() }
}

function sinksOf({ log, onEvents }: ServeOptions): InjectedSinks<PawlSinks> {
  return {
    pawl: {
      append: {
        callDuringReplay: true,
        fn({ workflowId, runId }, epoch, entries) {
          const key = { sessionId: sessionIdOf(workflowId), epoch }
          log.append(key, entries)
          onEvents?.(key, entries, { workflowId, executionId: runId })
        },
      },
    },
  }
}

/** The services of a definition, made. */
export async function makeServices(services: CreateWorkerOptions['services']): Promise<{ services: Services; dispose(): Promise<void> }> {
  const made: Services = (await (typeof services === 'function' ? services() : services)) ?? {}
  return {
    services: made,
    async dispose() {
      if (typeof made.dispose === 'function') await made.dispose()
    },
  }
}
