// Finds which of an execution's signals and updates have events in the store. A flush of many events is stored in parts, and a part may end
// anywhere. Requests whose events are stored must not be carried out again.
import type { EventOf, SessionEvent } from '../session/events.ts'
import { shortHash } from '../session/digest.ts'
import { isObject } from '../session/json.ts'
import { SIGNALS, UPDATES } from '../session/protocol/protocol.ts'
import { targetIn } from '../session/protocol/requests.ts'
import type { SessionState } from '../session/state.ts'

/** The stored events of the session. */
export interface EventsInStore {
  /** `seq` of the newest one. */
  upTo: number
  /** The chain to which they belong. */
  epoch?: string
  /** Whether none of them can stem from the execution's requests. */
  areOthers?: boolean
  /** The events above a `seq`. */
  after(seq: number): AsyncIterable<SessionEvent>
  /** The session that they make; null if they cannot be read. */
  state(): Promise<SessionState | null>
}

/** A decoded request of a client or operator. */
export interface Request {
  kind: 'signal' | 'cancellation' | 'update' | 'due'
  name: string
  details: unknown
  /** The update's id. */
  id?: string
}

type Details = Readonly<Record<string, unknown>>
type IsOf = (event: SessionEvent, details: Details) => boolean

const ofCall =
  (type: SessionEvent['type'], more: (event: SessionEvent) => boolean = () => true): IsOf =>
  (event, { callId }) =>
    event.type === type && 'callId' in event && event.callId === callId && more(event)

/** For each update: whether an event is the one that the update makes. Updates that are not listed may be repeated. */
const MADE_BY: Readonly<Record<string, IsOf>> = {
  [UPDATES.rollback]: (event, { target }) =>
    event.type === 'rolled_back' && !event.keepsRun && !event.again && isSame(event.target, targetIn(target)),
  [UPDATES.regenerate]: (event) => event.type === 'rolled_back' && event.again !== undefined,
  [UPDATES.recover]: (event, { strategy }) =>
    event.type === 'recovery_started' && !event.automatic && (strategy === undefined || event.strategy === strategy),
  [UPDATES.checkpoint]: (event, { reason }) =>
    (event.type === 'checkpoint_made' && event.reasons.some((one) => one === reason)) ||
    (event.type === 'checkpoint_requested' && event.reason === reason),
  [UPDATES.approve]: ofCall('approval_decided', (event) => event.type === 'approval_decided' && event.approved),
  [UPDATES.deny]: ofCall('approval_decided', (event) => event.type === 'approval_decided' && !event.approved),
  [UPDATES.resolve]: ofCall('tool_resolved'),
  [UPDATES.answer]: ofCall('answer_received'),
  [UPDATES.pause]: (event) => event.type === 'session_paused',
  [UPDATES.unpause]: (event) => event.type === 'session_unpaused',
  [UPDATES.raise]: (event) => event.type === 'budget_raised',
  [UPDATES.unschedule]: (event, { messageId, all }) =>
    event.type === 'messages_unscheduled' && (all === true || event.messageIds.some((id) => id === messageId)),
}

const OF_REQUESTS: ReadonlySet<SessionEvent['type']> = new Set([
  'message_received',
  'message_scheduled',
  'messages_unscheduled',
  'message_rejected',
  'run_started',
  'run_completed',
  'run_interrupted',
  'rolled_back',
  'recovery_started',
  'checkpoint_made',
  'checkpoint_requested',
  'approval_decided',
  'tool_resolved',
  'answer_received',
  'session_paused',
  'session_unpaused',
  'budget_raised',
  'request_passed_on',
  'session_closed',
])

export function isOfRequest({ type }: SessionEvent): boolean {
  return OF_REQUESTS.has(type)
}

/** Events that begin and end runs. */
const OF_RUNS: ReadonlySet<SessionEvent['type']> = new Set(['run_started', 'run_completed', 'run_interrupted'])

/** The indexes of the requests whose events are among these. The requests are in the order in which they were received. */
export function alreadyStored(requests: readonly Request[], events: readonly SessionEvent[]): ReadonlySet<number> {
  const left = [...events]
  const stored = new Map<number, number>()

  /** Each event belongs to one request. */
  function take(isIt: (event: SessionEvent) => boolean): number | undefined {
    const at = left.findIndex(isIt)
    return at < 0 ? undefined : left.splice(at, 1)[0]?.seq
  }

  const note = (place: number, seq: number | undefined): void => void (seq !== undefined && stored.set(place, seq))
  /**
   * The messages' events found so far, and the newest rollback: after a rollback, a client may send removed messages again with the same
   * ids.
   */
  const accepted = new Map<unknown, number>()
  let rolledBackAt = 0

  function ofMessage(details: Details): number | undefined {
    const { messageId } = details
    const seq = take((event) => isMessage(event, details))
    if (seq !== undefined) accepted.set(messageId, seq)
    // A duplicate of an accepted message made no event.
    const known = accepted.get(messageId)
    return seq ?? (messageId !== undefined && known !== undefined && known > rolledBackAt ? known : undefined)
  }

  /** The event of an update that was passed on names the update, even if the update changed nothing. */
  function ofUpdate({ name, id }: Request, details: Details): number | undefined {
    const passedOn = events.find((event): event is EventOf<'request_passed_on'> => event.type === 'request_passed_on' && event.id === id)
    if (passedOn?.code !== undefined) return passedOn.seq
    return take((event) => MADE_BY[name]?.(event, details) ?? false) ?? passedOn?.seq
  }

  for (const [place, request] of requests.entries()) {
    const details = isObject(request.details) ? (request.details as Details) : {}
    if (request.kind === 'update') {
      const seq = ofUpdate(request, details)
      if (seq !== undefined && (request.name === UPDATES.rollback || request.name === UPDATES.regenerate)) rolledBackAt = seq
      note(place, seq)
    } else if (request.kind === 'due')
      note(
        place,
        take((event) => isDelivery(event) && shortHash(event.messageId) === details.message),
      )
    else if (request.kind === 'cancellation') note(place, events.find(({ type }) => type === 'session_closed')?.seq)
    else if (request.name === SIGNALS.close) {
      const seq = take(({ type }) => type === 'session_closed')
      note(place, seq)
    } else if (request.name === SIGNALS.message) note(place, ofMessage(details))
  }
  for (const [place, { kind, name, details }] of requests.entries()) {
    if (kind !== 'signal' || name !== SIGNALS.interrupt) continue
    const { reason, run } = isObject(details) ? (details as Details) : ({} as Details)
    const isOfRun = (event: EventOf<'run_interrupted'>): boolean => run === undefined || event.run === run
    const seq = take((event) => event.type === 'run_interrupted' && event.reason === reason && isOfRun(event))
    // Signals arrive in order, so the signal was not meant for a run that began after a later message.
    const later = requests.findIndex((one, at) => at > place && one.kind === 'signal' && stored.has(at))
    const heardBy = stored.get(later) ?? Number.POSITIVE_INFINITY
    note(place, seq ?? events.find((event) => event.seq > heardBy && OF_RUNS.has(event.type))?.seq)
  }
  return new Set(stored.keys())
}

/** A message whose id the session assigned is recognised by its content. */
function isMessage(event: SessionEvent, { messageId, content }: Details): boolean {
  if (isDelivery(event)) return false
  if (event.type !== 'message_received' && event.type !== 'message_scheduled' && event.type !== 'message_rejected') return false
  if (messageId !== undefined) return event.messageId === messageId
  return event.type !== 'message_rejected' && isSame(event.content, content)
}

/** Whether the event delivers a message that had been scheduled. */
const isDelivery = (event: SessionEvent): event is EventOf<'message_received'> & { dueAt: number } =>
  event.type === 'message_received' && event.dueAt !== undefined

const isSame = (one: unknown, other: unknown): boolean => JSON.stringify(one) === JSON.stringify(other)
