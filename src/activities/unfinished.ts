// Requests that an ended execution had received and that had not had their effect yet. No event says that they had arrived, so they are passed
// on although later events are stored.
import type { Client } from '@temporalio/client'
import type { LoadSessionResult, PriorAnswer, PriorRequest } from '../calls/activities.ts'
import { isRunInProgress } from '../session/decide.ts'
import { defined } from '../session/defined.ts'
import type { EventOf, SessionEvent } from '../session/events.ts'
import { isObject } from '../session/json.ts'
import { REPLACED, SIGNALS } from '../session/protocol/protocol.ts'
import type { EventsInStore } from './already-stored.ts'
import { type Activity, OF_RUNS, watermarkBefore } from './answered.ts'
import { type ReceivedRequest, requestIn } from './received.ts'

/** What is known of an execution. `begunAt`: the newest event when it began, unless it loaded its session. */
interface ExecutionSoFar {
  activities: readonly Activity[]
  loaded: LoadSessionResult | undefined
  begunAt: number
}

/**
 * The first interrupt among these requests that had not ended its run yet, because the run's calls had not ended: no event says that it was
 * received. Its run is in progress, as it was when the interrupt came, and nothing that discards an interrupt has happened since.
 */
export async function pendingInterrupt(
  received: readonly ReceivedRequest[],
  { activities, loaded, begunAt }: ExecutionSoFar,
  events: EventsInStore,
  client: Client,
): Promise<ReceivedRequest[]> {
  const interrupting = received.filter(mayInterrupt)
  const state = interrupting.length > 0 ? await events.state() : null
  const run = state && isRunInProgress(state) ? state.current?.run : undefined
  if (run === undefined) return []
  const loadedState = loaded && 'state' in loaded ? loaded.state : undefined
  for (const one of interrupting) {
    const isPassedOn = one.at === 0
    const isMeant = isPassedOn ? loadedState?.current?.run === run : activities.some((activity) => isOfRunAt(one.at, run, activity))
    if (!isMeant) continue
    const since = isPassedOn ? (loadedState?.seq ?? begunAt) : watermarkBefore(one.at, activities, begunAt)
    const recent = await whileInProgress(events, since)
    const details = recent && (await interruptIn(one, recent, events, client))
    if (!details) continue
    const { at, id } = one
    return [{ at, id, kind: 'signal', name: SIGNALS.interrupt, details }]
  }
  return []
}

const mayInterrupt = ({ kind, name }: ReceivedRequest): boolean =>
  kind === 'due' || (kind === 'signal' && (name === SIGNALS.interrupt || name === SIGNALS.message))

type Received = EventOf<'message_received'>

/** The messages that were received since that event; undefined if something has happened since that discards an interrupt. */
async function whileInProgress({ after, upTo }: EventsInStore, seq: number): Promise<Received[] | undefined> {
  const received: Received[] = []
  for await (const event of after(seq)) {
    if (event.seq > upTo) break
    if (endsRun(event)) return undefined
    if (event.type === 'message_received') received.push(event)
  }
  return received
}

/** The details of the interrupt that the request is, or that its message is, if that was accepted: it replaces the run. */
async function interruptIn(one: ReceivedRequest, recent: readonly Received[], events: EventsInStore, client: Client): Promise<unknown> {
  const { details } = await requestIn(one, client)
  if (one.name === SIGNALS.interrupt) return details ?? {}
  const accepted = one.kind === 'due' ? await dueInterrupt(recent, events) : sentInterrupt(recent, details)
  return accepted && { reason: REPLACED, ...defined({ by: accepted.by }) }
}

function sentInterrupt(recent: readonly Received[], details: unknown): Received | undefined {
  if (!isObject(details) || details.interrupt !== true || details.messageId === undefined || details.at !== undefined) return undefined
  return recent.find(({ messageId }) => messageId === details.messageId)
}

/** A scheduled message says when it is scheduled that it interrupts, which may be long ago. */
async function dueInterrupt(recent: readonly Received[], { after, upTo }: EventsInStore): Promise<Received | undefined> {
  const delivered = recent.filter(({ dueAt }) => dueAt !== undefined)
  if (delivered.length === 0) return undefined
  const interrupting = new Set<string>()
  for await (const event of after(0)) {
    if (event.seq > upTo) break
    if (event.type === 'message_scheduled' && event.interrupt) interrupting.add(event.messageId)
  }
  return delivered.find(({ messageId }) => interrupting.has(messageId))
}

/** Whether the run waited for the activity at that position in history. */
function isOfRunAt(place: number, run: number, { name, at, endedAt, input }: Activity): boolean {
  const isInProgress = at < place && (endedAt === undefined || endedAt > place)
  return isInProgress && OF_RUNS.includes(name) && isObject(input) && input.run === run
}

/** Whether the event ends an attempt at a run, and with it what was to stop it. */
function endsRun(event: SessionEvent): boolean {
  if (event.type === 'error_entered') return event.strategy !== 'automatic'
  if (event.type === 'rolled_back') return !event.keepsRun
  return ['run_completed', 'run_interrupted', 'recovery_started', 'session_started', 'forked'].includes(event.type)
}

/**
 * The late results among these requests of calls that have no answer. The execution had received them, but records them only once its session
 * gets to the call, and a pause may keep it from getting there.
 */
export async function resultsOfLost(
  received: readonly ReceivedRequest[],
  answers: readonly PriorAnswer[],
  client: Client,
): Promise<PriorRequest[]> {
  const lost = new Set<unknown>(answers.flatMap((one) => (one.of === 'call' && one.result === undefined ? one.callId : [])))
  if (lost.size === 0) return []
  const late = received.filter(({ kind, name }) => kind === 'signal' && name === SIGNALS.lateResult)
  const results = new Map<unknown, PriorRequest>()
  for (const { name, details } of await Promise.all(late.map((one) => requestIn(one, client))))
    if (isObject(details) && lost.has(details.callId)) results.set(details.callId, { kind: 'signal', name, details })
  return [...results.values()]
}
