// The client of a crash test. Its sessions have a shorter workflow task timeout than others.
import { Client, type WorkflowClientInterceptor } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import { connectClient } from '../../connect/temporal.ts'

/**
 * The shortest that Temporal accepts, instead of pawl's three seconds: nearly half of all kills lose a workflow task, which is retried only
 * after its timeout. Histories of a crash test are short enough to replay within it.
 */
const WORKFLOW_TASK_TIMEOUT = msToTs(1_000)

const shortWorkflowTasks: WorkflowClientInterceptor = {
  signalWithStart: (input, next) => next({ ...input, options: { ...input.options, workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT } }),
}

/** Connects the client. */
export async function crashClient(temporal: { address: string; namespace: string }): Promise<{ client: Client; close(): Promise<void> }> {
  const { client, close } = await connectClient(temporal)
  const { connection } = client
  return { client: new Client({ connection, namespace: temporal.namespace, interceptors: { workflow: [shortWorkflowTasks] } }), close }
}
