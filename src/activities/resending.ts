// Sends a session what one of its ended executions had received: as it was, and once, however often that is repeated.
import type { Client } from '@temporalio/client'
import type { temporal } from '@temporalio/proto'
import type { Logger } from '../agent/tool.ts'
import { isObject } from '../session/json.ts'
import { SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import { decodedOrNothing, type Received, readSignals } from './raw-histories.ts'

/** A worker that is alive accepts an update within milliseconds. */
const UPDATE_MS = 10_000
/** UPDATE_WORKFLOW_EXECUTION_LIFECYCLE_STAGE_ACCEPTED. */
const ACCEPTED = 2

/** The ended execution, and where its session is. */
interface Sender {
  sessionId: string
  executionId: string
  client: Client
  logger: Logger
}

/** Sends one signal or update again. */
export async function resend(received: Received, sender: Sender): Promise<void> {
  if (received.kind === 'signal') return resendSignal(received, sender)
  const { sessionId, executionId, client, logger } = sender
  const { request } = received
  const { namespace } = client.options
  const workflowExecution = { workflowId: workflowIdOf(sessionId) }
  const send = () =>
    client.workflowService.updateWorkflowExecution({ namespace, workflowExecution, request, waitPolicy: { lifecycleStage: ACCEPTED } })
  try {
    await client.withDeadline(Date.now() + UPDATE_MS, send)
  } catch (err) {
    // The session checks it anew, and may refuse it now.
    const about = { session: sessionId, execution: executionId, update: request.input?.name }
    logger.warn({ err, ...about }, 'a request that an execution had accepted was not carried out')
  }
}

/** Resends the messages of an execution that ended without a past. Messages that the session already accepted change nothing. */
export async function resendMessages(sender: Omit<Sender, 'logger'>): Promise<void> {
  for (const signal of await readSignals(sender.sessionId, sender.executionId, sender.client)) {
    if (signal.name === SIGNALS.message) await resendSignal(signal, sender)
  }
}

async function resendSignal(
  { eventId, name, input }: Received & { kind: 'signal' },
  { sessionId, executionId, client }: Omit<Sender, 'logger'>,
): Promise<void> {
  const { namespace, identity } = client.options
  // The server drops a signal whose request id it knows.
  const requestId = `${executionId}/${eventId}`
  const about = { namespace, identity, workflowExecution: { workflowId: workflowIdOf(sessionId) }, signalName: name, requestId }
  const named = name === SIGNALS.message ? await withId(input, requestId, client) : undefined
  if (named) await client.workflow.getHandle(workflowIdOf(sessionId)).signal(name, named)
  else await client.workflowService.signalWorkflowExecution({ ...about, input })
}

/** A message without an id, with one that is the same if it is sent again; undefined if it has one. */
async function withId(input: Payloads, messageId: string, client: Client): Promise<object | undefined> {
  const message = await decodedOrNothing(client, input.payloads?.[0])
  return isObject(message) && message.messageId === undefined ? { ...message, messageId } : undefined
}

type Payloads = temporal.api.common.v1.IPayloads
