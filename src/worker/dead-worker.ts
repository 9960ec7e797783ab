// What a supervisor does for the activities of a process that died: their workflows go on at once, elsewhere.
import { ApplicationFailure } from '@temporalio/common'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import type { DeathReport } from '../activities/contract.ts'
import type { HoldOptions } from '../activities/needs.ts'
import type { Logger } from '../agent/tool.ts'

/** An execution that the dead process had cached. */
export interface CachedExecution {
  workflowId: string
  executionId: string
}

/** What a dead process left behind. */
export interface LeftBehind {
  held: readonly HoldOptions[]
  cached: readonly CachedExecution[]
  /** Why it died, for each attempt it held. */
  causeOf(hold: HoldOptions): DeathReport['cause']
}

const AT_ONCE = 20

/** Resets stickiness and fails what was held; what was held comes first, for somebody waits for it. */
export async function handOver(client: Client, { held, cached, causeOf }: LeftBehind, logger: Logger): Promise<void> {
  await each(held, async (hold) => {
    // First: else the workflow's next task waits for the dead process.
    await resetStickiness(client, hold, logger)
    await failAttempt(client, hold, causeOf(hold), logger)
  })
  const done = new Set(held.map((hold) => hold.workflowId))
  await each(
    cached.filter((execution) => !done.has(execution.workflowId)),
    (execution) => resetStickiness(client, execution, logger),
  )
}

async function each<T>(items: readonly T[], act: (item: T) => Promise<void>): Promise<void> {
  const queue = [...items]
  const lane = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await act(item)
  }
  await Promise.all(Array.from({ length: Math.min(AT_ONCE, items.length) }, lane))
}

async function resetStickiness(client: Client, { workflowId, executionId }: CachedExecution, logger: Logger): Promise<void> {
  try {
    await client.workflowService.resetStickyTaskQueue({
      namespace: client.options.namespace,
      execution: { workflowId, runId: executionId },
    })
  } catch (err) {
    // It may have closed; else its next task waits for the sticky timeout.
    logger.debug({ err, workflowId }, 'stickiness was not reset')
  }
}

async function failAttempt(client: Client, hold: HoldOptions, cause: DeathReport['cause'], logger: Logger): Promise<void> {
  const report: DeathReport = { ...hold.report, cause }
  const failure = ApplicationFailure.create({
    type: 'WorkerDied',
    nonRetryable: true,
    message: `Worker ${hold.report.worker} died (${cause}) while it held ${hold.call}.`,
    details: [report],
  })
  try {
    await client.activity.fail(hold.taskToken, failure)
  } catch (err) {
    // Its answer was on the way, or its beats will be missed.
    if (!(err instanceof ActivityNotFoundError)) logger.warn({ err, call: hold.call }, 'an attempt of a dead worker could not be failed')
  }
}
