// What a worker leaves behind that dies with a workflow task.
import { randomUUID } from 'node:crypto'
import type { Deployment } from './deployment.ts'
import { until } from './until.ts'

/** Takes the session's workflow task as a worker does, and never answers. */
export async function loseTask({ temporal, taskQueue, stack }: Deployment, { id }: { id: string }): Promise<void> {
  await until('the workflow task is taken', async () => {
    const task = await temporal.withDeadline(Date.now() + 5_000, () =>
      temporal.workflowService.pollWorkflowTaskQueue({
        namespace: stack.namespace,
        taskQueue: { name: taskQueue },
        identity: randomUUID(),
      }),
    )
    return task.workflowExecution?.workflowId === `pawl:${id}` && !task.query
  })
}
