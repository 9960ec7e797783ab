// Reads an execution that has ended, and that no worker can replay, from its raw history: the requests that the stored events lack.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import { decoded } from '../connect/decoded.ts'
import { isObject } from '../session/json.ts'
import { workflowIdOf } from '../session/protocol/protocol.ts'

/** A signal as the execution received it. */
export interface ReceivedSignal {
  eventId: string
  name: string
  /** Undefined if it cannot be decoded. */
  argument: unknown
}

/** What the stored events lack. `lost`: why the session must not continue without it by itself. */
export interface Unstored {
  signals: ReceivedSignal[]
  lost: string | undefined
}

/** Whether the execution was ended while its newest workflow task could not be completed. Queries of it fail, or are never answered. */
export async function endedInFailure(sessionId: string, executionId: string, client: Client): Promise<boolean> {
  const { events } = await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()
  const tasks = (events ?? []).filter((one) => one.workflowTaskCompletedEventAttributes ?? one.workflowTaskFailedEventAttributes)
  return Boolean(tasks.at(-1)?.workflowTaskFailedEventAttributes)
}

/** Reads what an ended execution received after the event `stored` of the session was made. */
export async function readUnstored(sessionId: string, executionId: string, stored: number, client: Client): Promise<Unstored> {
  const { events } = await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()
  const history = events ?? []
  const watermarks = await Promise.all(
    history.map(async ({ activityTaskScheduledEventAttributes: scheduled }) =>
      scheduled ? seqIn(await decodedOrNothing(client, scheduled.input?.payloads?.[0])) : undefined,
    ),
  )
  // A workflow task handles all signals before it schedules an activity, so the events that it names include them.
  const newest = watermarks.findLastIndex((seq) => seq !== undefined && seq <= stored)
  const [first] = history
  const isFirst = !first?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId
  const signals: ReceivedSignal[] = []
  let lost = newest < 0 && !isFirst ? 'events that an earlier execution passed on to it' : undefined
  for (const [index, event] of history.entries()) {
    if (index <= newest) continue
    const { activityTaskScheduledEventAttributes: scheduled, workflowExecutionSignaledEventAttributes: signal } = event
    if (scheduled?.activityType?.name === 'executeTool') lost ??= 'tool calls'
    if (scheduled?.activityType?.name === 'loadFork') lost ??= 'the past of the session that it forked'
    if (event.workflowExecutionUpdateAcceptedEventAttributes) lost ??= 'decisions of clients'
    if (!signal) continue
    const argument = await decodedOrNothing(client, signal.input?.payloads?.[0])
    signals.push({ eventId: String(event.eventId), name: signal.signalName ?? '', argument })
  }
  return { signals, lost }
}

/** The last event that an activity's input names. */
function seqIn(input: unknown): number | undefined {
  const { watermark } = (isObject(input) ? input : {}) as { watermark?: { seq?: unknown } }
  return typeof watermark?.seq === 'number' ? watermark.seq : undefined
}

/** Any client may have written the payload. Returns undefined if it cannot be decoded: the session would have refused it. */
export async function decodedOrNothing(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  return payload ? decoded(client, payload).catch(() => undefined) : undefined
}
