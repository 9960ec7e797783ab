// Recovers the unstored events of executions that were ended from outside, and the unrecorded messages of executions that never opened.
// Their histories have both.
import type { Client } from '@temporalio/client'
import type { Logger } from '../agent/tool.ts'
import { queryEvents } from '../connect/session-queries.ts'
import { isObject } from '../session/json.ts'
import { type EventsPage, SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import { isForeignPast, StoreError } from '../store/errors.ts'
import type { Store } from '../store/store.ts'
import { StaleWatermark } from '../jobs/errors.ts'
import { cutOffBefore } from './earlier-executions.ts'
import { CannotLoad } from './loading.ts'
import type { SessionReader } from './session-reader.ts'
import { endedInFailure, readSignals, readUnstored, type ReceivedSignal } from './raw-histories.ts'

/** A history of maximum size takes some seconds to replay. */
const QUERY_TIMEOUT_MS = 30_000
/** Shorter than the time after which `loading` reports what it waits for. */
const BROKEN_QUERY_TIMEOUT_MS = 4_000

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
  let isBroken = false
  try {
    isBroken = await endedInFailure(sessionId, executionId, client)
    // A worker of the build that wrote the history may be there, and answers soon. Others never answer.
    const end = await endOf(sessionId, executionId, client, isBroken ? BROKEN_QUERY_TIMEOUT_MS : QUERY_TIMEOUT_MS)
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
    } else if (error instanceof StoreError) {
      throw error
    } else {
      const lost = isBroken ? await continueWithout(sessionId, executionId, error, needs) : 'events'
      if (lost === undefined) return undefined
      if (!needs.abandoned) throw unreadable(executionId, lost, error)
      logger.warn(
        { err: error, session: sessionId, execution: executionId },
        'the events of an unreadable execution were abandoned, as a person decided',
      )
    }
  }
  return undefined
}

/**
 * Sends the session what an execution that no worker can replay received after its last stored event. If it may have done more than that,
 * sends nothing, and returns what would be lost.
 */
async function continueWithout(
  sessionId: string,
  executionId: string,
  cause: unknown,
  { store, client, logger }: Needs,
): Promise<string | undefined> {
  const { seq = 0 } = (await store.head(sessionId)) ?? {}
  const { signals, lost } = await readUnstored(sessionId, executionId, seq, client)
  if (lost !== undefined) return lost
  for (const signal of signals) await resend(sessionId, executionId, signal, client)
  logger.error(
    { err: cause, session: sessionId, execution: executionId, seq, signals: signals.length },
    'an execution cannot be replayed: its session continues after the last stored event, with the messages and other signals that followed',
  )
  return undefined
}

/** Whether the events are of an older chain, or were erased and must not come back. */
function isPassedOver(error: unknown): boolean {
  const isErased = error instanceof StoreError && error.code === 'session_erased'
  return error instanceof StaleWatermark || isForeignPast(error) || isErased
}

function unreadable(executionId: string, lost: string, cause: unknown): CannotLoad {
  const why = cause instanceof Error ? cause.message : String(cause)
  return new CannotLoad(
    'execution_unreadable',
    `Execution ${executionId} was ended from outside with ${lost} that are not stored, and its history cannot be read now: ${why}`,
    { cause },
  )
}

/** The last event of the execution; undefined if it never opened. */
function endOf(sessionId: string, executionId: string, client: Client, timeoutMs: number): Promise<EventsPage | undefined> {
  return queryEvents(client, { sessionId, executionId }, { after: Number.MAX_SAFE_INTEGER }, timeoutMs)
}

/** Resends messages that were sent to executions that never opened. Messages that the session already accepted change nothing. */
export async function resendMessages(sessionId: string, executionIds: readonly string[], client: Client): Promise<void> {
  for (const executionId of executionIds) {
    for (const signal of await readSignals(sessionId, executionId, client)) {
      if (signal.name === SIGNALS.message) await resend(sessionId, executionId, signal, client)
    }
  }
}

/** A message without an id gets one that is the same if it is sent again. */
async function resend(sessionId: string, executionId: string, { eventId, name, argument }: ReceivedSignal, client: Client): Promise<void> {
  if (!isObject(argument)) return
  const sent = name === SIGNALS.message ? { messageId: `${executionId}/${eventId}`, ...argument } : argument
  await client.workflow.getHandle(workflowIdOf(sessionId)).signal(name, sent)
}
