// The client of a crash test: as any other, but that its sessions are quick to give up a workflow task that died with an orchestrator.
import { Client, Connection, type WorkflowClientInterceptor } from '@temporalio/client'
import { msToTs } from '@temporalio/common/lib/time.js'

/**
 * The least that Temporal takes, instead of pawl's three seconds: nearly half of all kills take a workflow task along, and these short
 * histories are replayed in no time.
 */
const WORKFLOW_TASK_TIMEOUT = msToTs(1_000)

const quickToGiveUp: WorkflowClientInterceptor = {
  signalWithStart: (input, next) => next({ ...input, options: { ...input.options, workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT } }),
}

/** Connects. */
export async function crashClient({ address, namespace }: { address: string; namespace: string }): Promise<Client> {
  const connection = await Connection.connect({ address })
  return new Client({ connection, namespace, interceptors: { workflow: [quickToGiveUp] } })
}
