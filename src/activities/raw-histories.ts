// Reads executions that have ended from their raw histories: what they received, and whether a worker can replay them.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import { decoded } from '../connect/decoded.ts'
import { type HistoryEvent, newestFirst, watermarkIn } from '../connect/histories.ts'
import { workflowIdOf } from '../session/protocol/protocol.ts'

/** A signal as the execution received it. */
export interface ReceivedSignal {
  eventId: string
  name: string
  /** Undefined if it cannot be decoded. */
  argument: unknown
}

/** What the stored events lack. `lost`: what a session that continues without it would lose, besides the signals. */
export interface Unstored {
  signals: ReceivedSignal[]
  lost: string | undefined
}

/** Whether the execution was ended while its newest workflow task could not be completed. Queries of it fail, or are never answered. */
export async function endedInFailure(sessionId: string, executionId: string, client: Client): Promise<boolean> {
  const { namespace } = client.options
  for await (const event of newestFirst(client.workflowService, { namespace, workflowId: workflowIdOf(sessionId), executionId })) {
    if (event.workflowTaskCompletedEventAttributes) return false
    if (event.workflowTaskFailedEventAttributes) return true
  }
  return false
}

/** The signals that an execution received, oldest first. */
export async function readSignals(sessionId: string, executionId: string, client: Client): Promise<ReceivedSignal[]> {
  return signalsIn(await historyOf(sessionId, executionId, client), client)
}

/** Reads what an ended execution received after the event `stored` of the session was made. */
export async function readUnstored(sessionId: string, executionId: string, stored: number, client: Client): Promise<Unstored> {
  const history = await historyOf(sessionId, executionId, client)
  const watermarks = await Promise.all(
    history.map(async ({ activityTaskScheduledEventAttributes: scheduled }) =>
      scheduled ? watermarkIn(await decodedOrNothing(client, scheduled.input?.payloads?.[0]))?.seq : undefined,
    ),
  )
  // A workflow task handles all signals before it schedules an activity, so the events that it names include them.
  const newest = watermarks.findLastIndex((seq) => seq !== undefined && seq <= stored)
  const unstored = history.slice(newest + 1)
  const isFirst = !history[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId
  return {
    signals: await signalsIn(unstored, client),
    lost: newest < 0 && !isFirst ? 'events that an earlier execution passed on to it' : lostWith(unstored),
  }
}

/** What else than signals the events of a history hold: effects must not be repeated, nor decisions of clients be lost in silence. */
function lostWith(events: readonly HistoryEvent[]): string | undefined {
  const hasScheduled = (name: string): boolean =>
    events.some(({ activityTaskScheduledEventAttributes: scheduled }) => scheduled?.activityType?.name === name)
  if (hasScheduled('executeTool')) return 'tool calls'
  if (hasScheduled('loadFork')) return 'events of the session that it forked'
  return events.some((event) => event.workflowExecutionUpdateAcceptedEventAttributes) ? 'decisions of clients' : undefined
}

async function historyOf(sessionId: string, executionId: string, client: Client): Promise<HistoryEvent[]> {
  return (await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()).events ?? []
}

async function signalsIn(events: readonly HistoryEvent[], client: Client): Promise<ReceivedSignal[]> {
  const signals: ReceivedSignal[] = []
  for (const { eventId, workflowExecutionSignaledEventAttributes: signal } of events) {
    if (!signal) continue
    const argument = await decodedOrNothing(client, signal.input?.payloads?.[0])
    signals.push({ eventId: String(eventId), name: signal.signalName ?? '', argument })
  }
  return signals
}

/** Any client may have written the payload. Returns undefined if it cannot be decoded: the session would have refused it. */
async function decodedOrNothing(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  return decoded(client.options.loadedDataConverter, payload).catch(() => undefined)
}
