// What an execution received, as its raw history has it: signals, an operator's cancellation, and updates, in order.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import type { PriorRequest, Succession } from '../calls/activities.ts'
import type { HistoryEvent } from '../connect/histories.ts'
import { defined } from '../session/defined.ts'
import { isObject } from '../session/json.ts'
import { type Continuation, SIGNALS } from '../session/protocol/protocol.ts'
import type { Request } from './already-stored.ts'
import { decodedOrNothing } from './history-payloads.ts'

/**
 * A signal, a cancellation or an update in a history, and its place there. `endedAt`: where an update was completed. `details`: what an
 * earlier execution had passed on, instead of a payload.
 */
export type ReceivedRequest = { kind: PriorRequest['kind']; at: number; endedAt?: number; id: string; name: string } & (
  | { payload: Payload | null | undefined }
  | { details: unknown }
)

/** What an execution received, in order, except for updates that it accepted and then refused: their senders know. */
export function receivedIn(history: readonly HistoryEvent[]): ReceivedRequest[] {
  const received: ReceivedRequest[] = []
  const byId = new Map<string, ReceivedRequest>()
  const byAcceptance = new Map<string, ReceivedRequest | undefined>()
  const refused = new Set<ReceivedRequest>()
  for (const [at, event] of history.entries()) {
    const {
      workflowExecutionSignaledEventAttributes: signal,
      workflowExecutionCancelRequestedEventAttributes: cancelled,
      workflowExecutionUpdateAdmittedEventAttributes: admitted,
      workflowExecutionUpdateAcceptedEventAttributes: accepted,
      workflowExecutionUpdateCompletedEventAttributes: completed,
    } = event
    const eventId = String(event.eventId)
    if (signal) received.push({ kind: 'signal', at, id: eventId, name: signal.signalName ?? '', payload: signal.input?.payloads?.[0] })
    if (cancelled) received.push({ kind: 'cancellation', at, id: eventId, name: 'cancel', details: {} })
    // An update that a reset sent again is admitted with its request, and accepted without one.
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

/** The ids of the updates that were completed, also by a refusal. */
export function completedIn(history: readonly HistoryEvent[]): string[] {
  return history.flatMap(({ workflowExecutionUpdateCompletedEventAttributes: completed }) => completed?.meta?.updateId ?? [])
}

/** Whether it ends the session, which has no event of it until it closes. */
export function isOfEnd({ kind, name }: ReceivedRequest): boolean {
  return kind === 'cancellation' || (kind === 'signal' && name === SIGNALS.close)
}

/** Whether it is an update that arrived by this place, and was completed after it, or not at all. */
export function isInProgressAt(place: number, one: ReceivedRequest): boolean {
  return one.kind === 'update' && one.at <= place && (one.endedAt === undefined || one.endedAt > place)
}

export async function requestIn(received: ReceivedRequest, client: Client): Promise<Request> {
  const { kind, name, id } = received
  const details = 'details' in received ? received.details : await decodedOrNothing(client, received.payload)
  return { kind, name, details, ...(kind === 'update' && { id }) }
}

/** The same for every execution that it is passed on to: a message without an id has one from here on. */
export async function passedOn(received: ReceivedRequest, executionId: string, client: Client): Promise<PriorRequest> {
  const { kind, name, details } = await requestIn(received, client)
  const { id } = received
  if (kind === 'update') return { kind, name, details, id }
  const isUnnamed = name === SIGNALS.message && isObject(details) && details.messageId === undefined
  return { kind, name, details: isUnnamed ? { ...details, messageId: `${executionId}/${id}` } : details }
}

/** They precede all that the execution received itself. */
export function passedOnTo({ requests = [] }: Succession = {}): ReceivedRequest[] {
  return requests.map((one) => ({ ...one, at: 0, id: one.kind === 'update' ? one.id : '' }))
}

/** An earlier execution was asked to close, or cancelled, and passed that on. */
export function closingOf(carried: Continuation | undefined): ReceivedRequest[] {
  if (!carried?.closing) return []
  const { when, by } = carried.closing
  const close: ReceivedRequest = { kind: 'signal', at: 0, id: '1', name: SIGNALS.close, details: defined({ by }) }
  return when === 'now' ? [close, { kind: 'cancellation', at: 0, id: '1', name: 'cancel', details: {} }] : [close]
}
