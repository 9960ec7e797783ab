// Signals that reach a session whether its workflow is open or not.
import type { Client } from '@temporalio/client'
import { defined } from '../session/defined.ts'
import { WORKFLOW_TASK_TIMEOUT_MS, WORKFLOW_TYPE, workflowIdOf } from '../session/protocol/protocol.ts'
import { labelOf } from '../session/watching/label.ts'
import { searchAttributesOf, startIndexed, startPlain } from './search-attributes.ts'

export interface SignalToSession {
  sessionId: string
  taskQueue: string
  /** The argument of the workflow, if it is not open. */
  start: object
  signal: string
  value: unknown
}

/** Sends the signal, and starts the session's workflow if it is not open. `shown`: what Temporal's own tools show of it then. */
export async function signalSession(client: Client, to: SignalToSession, shown: object = {}): Promise<void> {
  await client.workflow.signalWithStart(WORKFLOW_TYPE, {
    workflowId: workflowIdOf(to.sessionId),
    taskQueue: to.taskQueue,
    workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
    args: [to.start],
    signal: to.signal,
    signalArgs: [to.value],
    ...shown,
  })
}

interface LabelledSession {
  agent?: string | undefined
  tags?: readonly string[] | undefined
}

/** Sends such signals. A workflow that they start shows its agent and tags, as far as the codecs allow that. */
export function labelledSignals(client: Client): (to: SignalToSession, of: LabelledSession) => Promise<void> {
  // With codecs, nothing that a user chose is stored in the clear.
  const hasCodecs = client.options.loadedDataConverter.payloadCodecs.length > 0
  const indexed = hasCodecs ? startPlain : startIndexed()
  return (to, { agent, tags }) => {
    const staticSummary = labelOf(agent, tags) || undefined
    return indexed(searchAttributesOf(defined({ agent, tags })), (typed) =>
      signalSession(client, to, { ...defined({ staticSummary }), ...typed }),
    )
  }
}
