// The client of a crash test: as any other, but that its sessions are quick to give up a workflow task that died with an orchestrator.
import { Client, type WorkflowClientInterceptor } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'
import { connectClient } from '../../connect/temporal.ts'

/**
 * The least that Temporal takes, instead of pawl's three seconds: nearly half of all kills take a workflow task along, and these short
 * histories are replayed in no time.
 */
const WORKFLOW_TASK_TIMEOUT = msToTs(1_000)

const quickToGiveUp: WorkflowClientInterceptor = {
  signalWithStart: (input, next) => next({ ...input, options: { ...input.options, workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT } }),
}

/** Connects as pawl's clients do, whose calls end with the connection. */
export async function crashClient(temporal: { address: string; namespace: string }): Promise<{ client: Client; close(): Promise<void> }> {
  const { client, close } = await connectClient(temporal)
  const { connection } = client
  return { client: new Client({ connection, namespace: temporal.namespace, interceptors: { workflow: [quickToGiveUp] } }), close }
}
