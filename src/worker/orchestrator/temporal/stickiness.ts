// Resets the stickiness of executions that a dead orchestrator had cached, so that their next task does not wait for it.
import type { Client } from '@temporalio/client'
import type { Logger } from '../../../agent/tool.ts'
import { sessionIdOf } from '../../../session/protocol/protocol.ts'
import type { CachedExecution } from '../../protocol.ts'

/**
 * How many are reset concurrently. Executions that were not used recently are not worth a reset: their next message waits two seconds,
 * once.
 */
export const AT_ONCE = 10

/** Lets the execution's next task go to any worker. Never rejects: if the reset fails, the task waits for the sticky queue's timeout. */
export async function resetStickiness(client: Client, { workflowId, executionId }: CachedExecution, logger: Logger): Promise<void> {
  try {
    await client.workflowService.resetStickyTaskQueue({
      namespace: client.options.namespace,
      execution: { workflowId, runId: executionId },
    })
  } catch (err) {
    // The execution may have closed.
    logger.debug({ err, session: sessionIdOf(workflowId) }, 'stickiness was not reset')
  }
}
