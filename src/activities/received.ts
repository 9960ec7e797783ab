// Reads from an execution's raw history what it received: signals, an operator's cancellation, updates, and the times at which scheduled
// messages were due, in order.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import type { PriorRequest, Succession } from '../calls/activities.ts'
import { eventTime, type HistoryEvent } from '../connect/histories.ts'
import { defined } from '../session/defined.ts'
import { isObject } from '../session/json.ts'
import { dueHashIn } from '../session/protocol/due-timer.ts'
import { type AnsweredRequest, type Continuation, REQUEST_ID, SIGNALS } from '../session/protocol/protocol.ts'
import type { Request } from './already-stored.ts'
import { decodedOrNothing } from './history-payloads.ts'

/**
 * A signal, a cancellation or an update, with its position in history. `endedAt`: the position at which an update was completed. `time`: when
 * the server received a signal, in milliseconds since 1970. `details`: used instead of a payload by requests that an earlier execution passed
 * on.
 */
export type ReceivedRequest = { kind: PriorRequest['kind']; at: number; endedAt?: number; id: string; name: string; time?: number } & (
  | { payload: Payload | null | undefined }
  | { details: unknown }
)

/** What an execution received, in order. Updates that it accepted and then refused are left out, because their senders know. */
export function receivedIn(history: readonly HistoryEvent[]): ReceivedRequest[] {
  const received: ReceivedRequest[] = []
  const byId = new Map<string, ReceivedRequest>()
  const byAcceptance = new Map<string, ReceivedRequest | undefined>()
  const refused = new Set<ReceivedRequest>()
  const timers = new Map<string, Payload | null | undefined>()
  for (const [at, event] of history.entries()) {
    const {
      workflowExecutionSignaledEventAttributes: signal,
      workflowExecutionCancelRequestedEventAttributes: cancelled,
      workflowExecutionUpdateAdmittedEventAttributes: admitted,
      workflowExecutionUpdateAcceptedEventAttributes: accepted,
      workflowExecutionUpdateCompletedEventAttributes: completed,
      timerStartedEventAttributes: timer,
      timerFiredEventAttributes: fired,
    } = event
    const eventId = String(event.eventId)
    if (timer && event.userMetadata?.summary) timers.set(eventId, event.userMetadata.summary)
    const summary = fired && timers.get(String(fired.startedEventId))
    if (summary) received.push({ kind: 'due', at, id: eventId, name: 'timer', payload: summary })
    if (signal) {
      const { signalName, input } = signal
      const payload = input?.payloads?.[0]
      received.push({ kind: 'signal', at, id: eventId, name: signalName ?? '', time: eventTime(event), payload })
    }
    if (cancelled) received.push({ kind: 'cancellation', at, id: eventId, name: 'cancel', details: {} })
    // If a reset sent an update again, the request is in its admission and not in its acceptance.
    const request = admitted?.request ?? accepted?.acceptedRequest
    if (request) {
      const { meta, input } = request
      const id = meta?.updateId ?? ''
      const update: ReceivedRequest = { kind: 'update', at, id, name: input?.name ?? '', payload: input?.args?.payloads?.[0] }
      received.push(update)
      byId.set(id, update)
    }
    if (accepted) byAcceptance.set(eventId, byId.get(accepted.acceptedRequest?.meta?.updateId ?? accepted.protocolInstanceId ?? ''))
    const ended = completed && byAcceptance.get(String(completed.acceptedEventId))
    if (ended) ended.endedAt = at
    if (ended && completed.outcome?.failure) refused.add(ended)
  }
  return received.filter((one) => !refused.has(one))
}

/** The ids of the updates that were completed, including refused ones. */
export function completedIn(history: readonly HistoryEvent[]): string[] {
  return history.flatMap(({ workflowExecutionUpdateCompletedEventAttributes: completed }) => completed?.meta?.updateId ?? [])
}

/** The updates with ids of their senders that were carried out, with their answers. */
export async function answeredIn(history: readonly HistoryEvent[], client: Client): Promise<AnsweredRequest[]> {
  const completed = history.flatMap(({ workflowExecutionUpdateCompletedEventAttributes: one }) => {
    const id = one?.meta?.updateId ?? ''
    return id.startsWith(REQUEST_ID) && one?.outcome?.success ? [{ id, payload: one.outcome.success.payloads?.[0] }] : []
  })
  return Promise.all(completed.map(async ({ id, payload }) => ({ id, ...defined({ answer: await decodedOrNothing(client, payload) }) })))
}

/** The id that its sender gave a signal. */
export function namedIn(details: unknown): AnsweredRequest[] {
  return isObject(details) && typeof details.id === 'string' && details.id.startsWith(REQUEST_ID) ? [{ id: details.id }] : []
}

/** Whether the request ends the session. The session records no event of it until it closes. */
export function isOfEnd({ kind, name }: ReceivedRequest): boolean {
  return kind === 'cancellation' || (kind === 'signal' && name === SIGNALS.close)
}

/** Whether an update arrived at or before this position, and was completed after it or not at all. */
export function isInProgressAt(place: number, one: ReceivedRequest): boolean {
  return one.kind === 'update' && one.at <= place && (one.endedAt === undefined || one.endedAt > place)
}

export async function requestIn(received: ReceivedRequest, client: Client): Promise<Request> {
  const { kind, name, id } = received
  const given = 'details' in received ? received.details : await decodedOrNothing(client, received.payload)
  const details = kind === 'due' && !isObject(given) ? { message: dueHashIn(given) } : given
  return { kind, name, details, ...(kind === 'update' && { id }) }
}

/**
 * The request in the form in which it is passed on, which stays the same from then on: a message without an id gets one here, and one with a
 * deadline the time from which the deadline counts.
 */
export async function passedOn(received: ReceivedRequest, executionId: string, client: Client): Promise<PriorRequest> {
  const { kind, name, details } = await requestIn(received, client)
  const { id, time } = received
  if (kind === 'update') return { kind, name, details, id }
  if (name !== SIGNALS.message || !isObject(details)) return { kind, name, details }
  const { messageId = `${executionId}/${id}`, deadlineMs, receivedAt = time } = details
  return { kind, name, details: { ...details, messageId, ...(deadlineMs !== undefined && defined({ receivedAt })) } }
}

/** Requests that were passed on precede all that the execution itself received. */
export function passedOnTo({ requests = [] }: Succession = {}): ReceivedRequest[] {
  return requests.map((one) => ({ ...one, at: 0, id: one.kind === 'update' ? one.id : '' }))
}

/** The request to close, or the cancellation, that an earlier execution passed on. */
export function closingOf(carried: Continuation | undefined): ReceivedRequest[] {
  if (!carried?.closing) return []
  const { when, by } = carried.closing
  const close: ReceivedRequest = { kind: 'signal', at: 0, id: '1', name: SIGNALS.close, details: defined({ by }) }
  return when === 'now' ? [close, { kind: 'cancellation', at: 0, id: '1', name: 'cancel', details: {} }] : [close]
}
