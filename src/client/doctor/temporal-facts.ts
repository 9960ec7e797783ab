// What `doctor` measures on Temporal: the server, its clock, the pollers of the task queues, and their backlog.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@temporalio/client'
import type { temporal } from '@temporalio/proto'
import { onTemporal } from '../../connect/deadline.ts'
import { ownTaskQueue } from '../../session/protocol/protocol.ts'

type Timestamp = temporal.api.taskqueue.v1.IPollerInfo['lastAccessTime']

/** Facts about the server and the namespace. */
export interface TemporalFacts {
  version: string
  namespace: string
  retentionMs: number
  roundTripMs: number
}

/** A process that polls a task queue, or did so in the last few minutes. Times are milliseconds since 1970, by the server's clock. */
export interface Poller {
  identity: string
  /** `pawl@<version>+<digest of the workflow code>`. */
  build: string
  at: number
}

/** A task queue for one type of task. */
export interface QueueFacts {
  name: string
  type: 'workflow' | 'activity'
  pollers: Poller[]
  /** Tasks that no worker has picked up yet; undefined if the server does not report them. */
  backlog: { tasks: number; ageMs: number } | undefined
}

const CALLS_MS = 10_000
const TYPES = { workflow: 1, activity: 2 } as const

/** Reads the facts about the server and the namespace. */
export async function temporalFacts(client: Client): Promise<TemporalFacts> {
  const { namespace } = client.options
  const service = client.connection.workflowService
  return onTemporal(
    client,
    async () => {
      const { serverVersion } = await service.getSystemInfo({})
      const before = Date.now()
      const { config } = await service.describeNamespace({ namespace })
      const retentionMs = Number(config?.workflowExecutionRetentionTtl?.seconds ?? 0) * 1_000
      return { version: serverVersion ?? 'unknown', namespace, retentionMs, roundTripMs: Date.now() - before }
    },
    CALLS_MS,
  )
}

/** The three task queues of a deployment: workflows, user code, and pawl's own activities. */
export function queueFacts(client: Client, taskQueue: string): Promise<QueueFacts[]> {
  const queues = [
    [taskQueue, 'workflow'],
    [taskQueue, 'activity'],
    [ownTaskQueue(taskQueue), 'activity'],
  ] as const
  return onTemporal(client, () => Promise.all(queues.map(([name, type]) => oneQueue(client, name, type))), CALLS_MS)
}

async function oneQueue(client: Client, name: string, type: QueueFacts['type']): Promise<QueueFacts> {
  const { pollers, stats } = await client.connection.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name },
    taskQueueType: TYPES[type],
    reportStats: true,
  })
  return {
    name,
    type,
    pollers: (pollers ?? []).map(({ identity, lastAccessTime, workerVersionCapabilities: version, deploymentOptions }) => ({
      identity: identity ?? '',
      build: version?.buildId || deploymentOptions?.buildId || 'unknown',
      at: msOf(lastAccessTime),
    })),
    backlog: stats ? { tasks: Number(stats.approximateBacklogCount ?? 0), ageMs: durationOf(stats.approximateBacklogAge) } : undefined,
  }
}

/** A task queue that no worker polls. */
const CLOCK_QUEUE = 'pawl:clock'
/** The server refuses shorter polls. */
const POLL_MS = 5_000
const LOOKS = 20
const LOOK_EVERY_MS = 50

/**
 * The server's time, and the local time at that moment. No call returns the server's time, but the server records when a poll arrived, so
 * this briefly polls a task queue of its own. The result is accurate to within the duration of one call.
 */
export async function temporalClock(client: Client): Promise<{ theirs: number; ours: number } | undefined> {
  const { namespace } = client.options
  const identity = `pawl-doctor:${randomUUID()}`
  const polling = new AbortController()
  const ours = Date.now()
  const poll = client.withAbortSignal(polling.signal, () =>
    client.withDeadline(Date.now() + POLL_MS, () =>
      client.connection.workflowService.pollWorkflowTaskQueue({ namespace, identity, taskQueue: { name: CLOCK_QUEUE } }),
    ),
  )
  const ended = poll.catch(() => undefined)
  try {
    for (let looks = 0; looks < LOOKS; looks++) {
      const { pollers } = await oneQueue(client, CLOCK_QUEUE, 'workflow')
      const own = pollers.find((poller) => poller.identity === identity)
      if (own) return { theirs: own.at, ours }
      await sleep(LOOK_EVERY_MS)
    }
    return undefined
  } finally {
    polling.abort()
    await ended
  }
}

function msOf(time: Timestamp): number {
  return Number(time?.seconds ?? 0) * 1_000 + Math.trunc((time?.nanos ?? 0) / 1_000_000)
}

const durationOf = msOf
