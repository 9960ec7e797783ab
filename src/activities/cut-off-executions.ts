// Recovers the unstored events of executions that were ended from outside, and the unrecorded messages of executions that never opened.
// Their histories have both.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import type { Logger } from '../agent/tool.ts'
import { queryEvents } from '../connect/session-queries.ts'
import { type EventsPage, SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import { StoreError } from '../store/errors.ts'
import type { Store } from '../store/store.ts'
import { StaleWatermark } from '../jobs/errors.ts'
import { cutOffBefore } from './earlier-executions.ts'
import { CannotLoad } from './loading.ts'
import type { SessionReader } from './session-reader.ts'

/** A history of maximum size takes some seconds to replay. */
const QUERY_TIMEOUT_MS = 30_000

/** Dependencies. */
interface Needs {
  store: Store
  reader: SessionReader
  client: Client
  logger: Logger
  /** A person decided to continue without the events of unreadable executions. */
  abandoned: boolean
}

/**
 * Stores the unstored events of the reset execution, if there is one, and of executions before `own`, if they continue the stored ones.
 * Returns the executions that never opened.
 * @throws CannotLoad `execution_unreadable`; StoreError.
 */
export async function storeCutOffExecutions(sessionId: string, own: string, needs: Needs, wasReset?: string): Promise<string[]> {
  if (wasReset !== undefined) await storeEventsOf(sessionId, wasReset, needs)
  const last = await needs.store.lastExecution(sessionId)
  const unopened: string[] = []
  for (const executionId of await cutOffBefore(sessionId, { own, last }, needs.client)) {
    if ((await storeEventsOf(sessionId, executionId, needs)) === 'unopened') unopened.push(executionId)
  }
  return unopened
}

async function storeEventsOf(sessionId: string, executionId: string, needs: Needs): Promise<'unopened' | undefined> {
  const { store, reader, client, logger } = needs
  try {
    const end = await endOf(sessionId, executionId, client)
    if (!end) return 'unopened'
    const head = (await store.head(sessionId)) ?? { seq: 0, digest: '' }
    if (end.to.seq <= head.seq) return undefined
    const target = { sessionId, executionId, epoch: end.epoch, watermark: end.to }
    for await (const entries of reader.parts(target, head, client)) await store.flush(sessionId, end.epoch, entries, { executionId })
    logger.warn(
      { session: sessionId, execution: executionId, events: end.to.seq - head.seq },
      'stored events of an execution that was ended before it could store them',
    )
  } catch (error) {
    if (isPassedOver(error)) {
      logger.debug(
        { err: error, session: sessionId, execution: executionId },
        'an execution that was ended from outside does not continue the stored events',
      )
    } else {
      if (error instanceof StoreError || !needs.abandoned) throw unreadable(executionId, error)
      logger.warn(
        { err: error, session: sessionId, execution: executionId },
        'the events of an unreadable execution were abandoned, as a person decided',
      )
    }
  }
  return undefined
}

/** Whether the events are of an older chain, or were erased and must not come back. */
function isPassedOver(error: unknown): boolean {
  return error instanceof StaleWatermark || (error instanceof StoreError && ['session_erased', 'foreign_epoch'].includes(error.code))
}

function unreadable(executionId: string, cause: unknown): unknown {
  if (cause instanceof StoreError) return cause
  const why = cause instanceof Error ? cause.message : String(cause)
  return new CannotLoad(
    'execution_unreadable',
    `Execution ${executionId} was ended from outside with events that are not stored, and its history cannot be read now: ${why}`,
    { cause },
  )
}

/** The last event of the execution; undefined if it never opened. */
function endOf(sessionId: string, executionId: string, client: Client): Promise<EventsPage | undefined> {
  return queryEvents(client, { sessionId, executionId }, { after: Number.MAX_SAFE_INTEGER }, QUERY_TIMEOUT_MS)
}

/** Resends messages that were sent to executions that never opened. Messages that the session already accepted change nothing. */
export async function resendMessages(sessionId: string, executionIds: readonly string[], client: Client): Promise<void> {
  const session = client.workflow.getHandle(workflowIdOf(sessionId))
  for (const executionId of executionIds) {
    const { events } = await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()
    for (const { eventId, workflowExecutionSignaledEventAttributes: signal } of events ?? []) {
      if (signal?.signalName !== SIGNALS.message) continue
      const message = await decoded(client, signal.input?.payloads?.[0])
      if (message !== null && typeof message === 'object') {
        await session.signal(SIGNALS.message, { messageId: `${executionId}/${eventId}`, ...message })
      }
    }
  }
}

/** Returns undefined if the payload cannot be decoded: the session would have refused it. */
async function decoded(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  if (!payload) return undefined
  const { payloadConverter, payloadCodecs } = client.options.loadedDataConverter
  try {
    let payloads = [payload]
    for (const codec of [...payloadCodecs].reverse()) payloads = await codec.decode(payloads)
    return payloads[0] && payloadConverter.fromPayload(payloads[0])
  } catch {
    return undefined
  }
}
