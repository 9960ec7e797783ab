// Reads the raw histories of ended executions: what they received and what their activities returned. No worker has to replay them.
import type { Client } from '@temporalio/client'
import type { PriorAnswer, PriorRequest, RepeatedRequests, Succession } from '../calls/activities.ts'
import { type HistoryEvent, isOfWorkflow, newestFirst, watermarkIn } from '../connect/histories.ts'
import type { SessionEvent } from '../session/events.ts'
import { isObject } from '../session/json.ts'
import { newestAnswered, soundAnswered } from '../session/protocol/answered.ts'
import { type AnsweredRequest, type Continuation, SIGNALS, UPDATES, workflowIdOf } from '../session/protocol/protocol.ts'
import { alreadyStored, type EventsInStore, isOfRequest } from './already-stored.ts'
import { activitiesIn, type Activity, answersIn, answersOf, finalAnswerIn, loadedBy, watermarkBefore } from './answered.ts'
import { historyOf, isReset, resetIn, startedOf, startIn } from './history-payloads.ts'
import { lostWith, withoutFailures } from './placeable.ts'
import { callsMadeBy, notHandled } from './ridden.ts'
import {
  answeredIn,
  closingOf,
  completedIn,
  isInProgressAt,
  isOfEnd,
  namedIn,
  passedOn,
  passedOnTo,
  type ReceivedRequest,
  receivedIn,
  requestIn,
} from './received.ts'
import { pendingInterrupt, resultsOfLost } from './unfinished.ts'

/** What the stored events lack. `lost`: what the session would lose beyond that if it continued. */
export interface UnstoredPast {
  received: PriorRequest[]
  answers: PriorAnswer[]
  lost: string | undefined
}

/**
 * How far an execution had got when it was ended. `unbegun`: it never completed a workflow task, so it made no events. `reset`: it
 * completed no workflow task after the reset that created it. `failing`: its newest task could not be completed. Queries of such executions
 * fail, are never answered, or answer as if there had been no reset.
 */
export async function endOf(sessionId: string, executionId: string, client: Client): Promise<'unbegun' | 'reset' | 'failing' | 'ordinary'> {
  const { namespace } = client.options
  let isFailing = false
  for await (const event of newestFirst(client.workflowService, { namespace, workflowId: workflowIdOf(sessionId), executionId })) {
    if (event.workflowTaskCompletedEventAttributes) return isFailing ? 'failing' : 'ordinary'
    if (isReset(event)) return 'reset'
    const { workflowTaskFailedEventAttributes: failed } = event
    isFailing ||= failed != null && isOfWorkflow(failed)
  }
  return 'unbegun'
}

/** Updates that make sense whatever has happened in the session. Others refer to something in the mistaken past. */
const OF_ANY_PAST: readonly string[] = [UPDATES.pause, UPDATES.unpause, UPDATES.raise]

/** The requests, in order, that an execution with a mistaken past of its own received for the existing session. */
export async function readMistaken(sessionId: string, executionId: string, client: Client): Promise<PriorRequest[]> {
  return passedOnByMistaken(await historyOf(sessionId, executionId, client), executionId, client)
}

/** The same for an execution that took the session for a new one without consulting the store. Any other execution yields nothing. */
export async function readForNew(sessionId: string, executionId: string, client: Client): Promise<PriorRequest[]> {
  const history = await historyOf(sessionId, executionId, client)
  return (await startIn(history, client))?.isNew ? passedOnByMistaken(history, executionId, client) : []
}

async function passedOnByMistaken(history: readonly HistoryEvent[], executionId: string, client: Client): Promise<PriorRequest[]> {
  const isOfSession = ({ kind, name }: ReceivedRequest): boolean =>
    kind === 'update' ? OF_ANY_PAST.includes(name) : name !== SIGNALS.lateResult
  const received = receivedIn(history).filter(isOfSession)
  const left = await withoutIdle(received, await activitiesIn(history, client), history, client)
  return Promise.all(left.map((one) => passedOn(one, executionId, client)))
}

/** Whether the execution has loaded its session, and with it what earlier executions had passed on. */
export async function hasLoaded(sessionId: string, executionId: string, client: Client): Promise<boolean> {
  const history = await historyOf(sessionId, executionId, client)
  const resetAt = resetIn(history)
  const own = (await activitiesIn(history, client)).filter(({ at }) => at > resetAt)
  return (await loadedBy(own, client)) !== undefined
}

/** Reads what an ended execution received, and what its activities returned, after it made the session's newest stored event. */
export async function readUnstored(sessionId: string, executionId: string, events: EventsInStore, client: Client): Promise<UnstoredPast> {
  const { upTo: stored } = events
  const history = await historyOf(sessionId, executionId, client)
  const activities = await activitiesIn(history, client)
  // A workflow task handles all signals and results before it schedules an activity, so the watermark in the activity's input covers them.
  // An update may wait for an activity and make its events afterwards.
  const { at: newest = -1, input } =
    activities.findLast(({ input }) => (watermarkIn(input)?.seq ?? Number.POSITIVE_INFINITY) <= stored) ?? {}
  const loaded = await loadedBy(activities, client)
  const passed = passedOnTo(loaded)
  const all = [...passed, ...receivedIn(history).filter(({ kind, id }) => kind !== 'update' || passed.every((one) => one.id !== id))]
  const { carried, isNew } = (await startIn(history, client)) ?? {}
  if (isNew && isForeign(activities, events.epoch))
    return { received: await passedOnByMistaken(history, executionId, client), answers: [], lost: undefined }
  const carriedUpTo = seqOf(carried)
  const mistaken = carried || loaded ? undefined : startedOf(history)?.continuedExecutionRunId
  const open = all.filter((one) => isInProgressAt(newest, one) || (isOfEnd(one) && one.at <= newest))
  const inProgress = [...closingOf(carried), ...open]
  const before = watermarkBefore(inProgress[0]?.at ?? 0, activities, carriedUpTo)
  const pending = await pendingInterrupt(
    all.filter((one) => one.at <= newest),
    { activities, loaded, begunAt: carriedUpTo },
    events,
    client,
  )
  const early = [...(await withoutStored(inProgress, events, before, history, client)), ...pending].sort((a, b) => a.at - b.at)
  const late = all.filter((one) => one.at > newest)
  const later = await withoutStored(late, events, watermarkIn(input)?.seq ?? carriedUpTo, history, client)
  const left = await withoutIdle([...early, ...later], activities, history, client)
  const requests = await Promise.all(left.map((one) => passedOn(one, executionId, client)))
  const ofMistaken = mistaken ? await readMistaken(sessionId, mistaken, client) : []
  const received = [...ofMistaken, ...requests]
  const placed = [...ofMistaken.map((one) => ({ ...one, at: 0 })), ...requests.map((one, place) => ({ ...one, at: left[place]?.at ?? 0 }))]
  const unanswered = activities.filter(({ at, endedAt }) => at > newest || endedAt === undefined || endedAt > newest)
  const made = await callsMadeBy(unanswered, { sessionId, executionId }, client)
  const answers = withoutFailures([...inheritedBy(carried, loaded), ...(await answersIn(unanswered, made, client))])
  if (newest < 0 && carriedUpTo > stored) return { received, answers, lost: 'events that an earlier execution passed on to it' }
  const known = stored > 0 ? await events.state() : undefined
  const results = await resultsOfLost(
    all.filter((one) => one.at <= newest),
    answers,
    client,
  )
  const lost = lostWith(placed, { activities: unanswered, made, since: newest }, answers, known)
  return { received: [...results, ...received], answers, lost }
}

/** Whether the stored events belong to another past than the one that these activities know. */
function isForeign(activities: readonly Activity[], epoch: string | undefined): boolean {
  const known = activities.flatMap(({ input }) => (isObject(input) && typeof input.epoch === 'string' ? [input.epoch] : []))
  return epoch !== undefined && known.length > 0 && !known.includes(epoch)
}

/** Leaves out interrupts that found no run: the last answer had arrived, and nothing had been sent since the model was asked. */
async function withoutIdle(
  received: readonly ReceivedRequest[],
  activities: readonly Activity[],
  history: readonly HistoryEvent[],
  client: Client,
): Promise<ReceivedRequest[]> {
  const messages = receivedIn(history).filter(({ kind, name }) => kind === 'due' || (kind === 'signal' && name === SIGNALS.message))
  const idle = new Set<ReceivedRequest>()
  for (const one of received) {
    if (one.kind !== 'signal' || one.name !== SIGNALS.interrupt) continue
    const answered = await finalAnswerIn(activities, one.at, client)
    // The task that received the answer must have been completed, because within one task signals come before results.
    const isHeard = answered && history.some((event, at) => at < one.at && completesAfter(event, answered.endedAt ?? at))
    if (isHeard && !messages.some(({ at }) => at > answered.at && at < one.at)) idle.add(one)
  }
  return received.filter((one) => !idle.has(one))
}

/** Whether the event completes a workflow task that began after that position in history. */
function completesAfter({ workflowTaskCompletedEventAttributes: completed }: HistoryEvent, place: number): boolean {
  // Event ids count from 1.
  return completed != null && Number(completed.startedEventId) - 1 > place
}

/**
 * The requests with ids of their senders that an execution carried out before it was ended from outside, or that an earlier one had passed
 * on to it as carried out. `notDone`: those that are passed on. A close did not happen, because it would have ended the execution.
 */
export async function readAnswered(
  sessionId: string,
  executionId: string,
  notDone: readonly PriorRequest[],
  client: Client,
): Promise<AnsweredRequest[]> {
  const history = await historyOf(sessionId, executionId, client)
  const { carried } = (await startIn(history, client)) ?? {}
  const loaded = await loadedBy(await activitiesIn(history, client), client)
  const isHandled = ({ at }: ReceivedRequest): boolean => history.some((event, place) => place > at && completesAfter(event, at))
  const interrupts = receivedIn(history).filter((one) => one.name === SIGNALS.interrupt && isHandled(one))
  const asked = await Promise.all(interrupts.map((one) => requestIn(one, client)))
  const own = [...(await answeredIn(history, client)), ...asked.flatMap(({ details }) => namedIn(details))]
  const left = new Set(notDone.flatMap((one) => (one.kind === 'update' ? [one.id] : namedIn(one.details).map(({ id }) => id))))
  const all = [...soundAnswered(carried?.answered), ...soundAnswered(loaded?.answered), ...own]
  return newestAnswered(all.filter(({ id }) => !left.has(id)))
}

/**
 * What the execution itself had inherited from one that could not be replayed, and had not used by the time its events were stored. Used
 * answers match no open call or turn, a late result changes no call that has ended, and each update that was carried out left an event. Also
 * the calls that ran as part of its last model call, if it had not handled them, an interrupt that had not ended its run, and the updates
 * that it had accepted and not carried out.
 */
export async function readLeft(
  sessionId: string,
  executionId: string,
  events: EventsInStore,
  client: Client,
): Promise<Pick<Succession, 'answers' | 'requests'>> {
  const history = await historyOf(sessionId, executionId, client)
  const { carried } = (await startIn(history, client)) ?? {}
  const activities = await activitiesIn(history, client)
  const loaded = await loadedBy(activities, client)
  const received = [...passedOnTo(loaded), ...receivedIn(history)]
  const updates = passedOnTo(loaded).filter(({ kind }) => kind === 'update')
  const settled = loaded?.found && 'state' in loaded ? loaded.state.seq : 0
  const pending = await pendingInterrupt(received, { activities, loaded, begunAt: seqOf(carried) }, events, client)
  const left = [...(await withoutStored(updates, events, settled, history, client)), ...pending]
  const begun = (await acceptedOnly(history, activities, seqOf(carried) || settled, events, client)).filter(({ id }) =>
    updates.every((one) => one.id !== id),
  )
  const requests = await Promise.all([
    ...left.map((one) => passedOn(one, executionId, client)),
    ...begun.map(async ({ receivedAt, ...one }) => ({ ...(await passedOn(one, executionId, client)), receivedAt })),
  ])
  const made = await callsMadeBy(notHandled(activities, history), { sessionId, executionId }, client)
  const answers = [...inheritedBy(carried, loaded), ...[...made].flatMap((one) => answersOf(...one))]
  const results = await resultsOfLost(received, answers, client)
  const all = [...results, ...requests]
  return { ...(answers.length > 0 && { answers }), ...(all.length > 0 && { requests: all }) }
}

/**
 * The updates that the execution had accepted and not carried out when it ended, because they waited for an activity or a run. Those that
 * were completed before one of them take their events first.
 */
async function acceptedOnly(
  history: readonly HistoryEvent[],
  activities: readonly Activity[],
  begunAt: number,
  events: EventsInStore,
  client: Client,
): Promise<(ReceivedRequest & { receivedAt: number })[]> {
  const all = receivedIn(history)
  const isLeft = (one: ReceivedRequest): boolean => one.kind === 'update' && one.endedAt === undefined
  const first = all.find(isLeft)
  if (!first) return []
  const seenUpTo = (place: number): Activity | undefined => activities.findLast(({ at, input }) => at < place && watermarkIn(input))
  const since = seenUpTo(first.at)
  const perhaps = all.filter(({ at }) => at > (since?.at ?? -1))
  const left = await withoutStored(perhaps, events, watermarkIn(since?.input)?.seq ?? begunAt, history, client)
  return left.filter(isLeft).map((one) => ({ ...one, receivedAt: watermarkBefore(one.at, activities, begunAt) }))
}

const inheritedBy = (carried: Continuation | undefined, loaded: Succession | undefined): PriorAnswer[] => [
  ...((carried?.inherited ?? []) as PriorAnswer[]),
  ...(loaded?.answers ?? []),
]

/** The newest event at the start of an execution. */
const seqOf = (carried: Continuation | undefined): number => (carried ? carried.state.seq + (carried.tail?.length ?? 0) : 0)

/** An execution that a reset created. */
export interface Reset {
  sessionId: string
  executionId: string
  after?: string | undefined
  passedOn?: readonly PriorRequest[] | undefined
}

/**
 * Reads which requests of this execution were already carried out: an operator reset an execution to an earlier point, and the server sent
 * the requests after that point again. `after`: the reset execution, if all of its events are stored. The updates that it completed are
 * then done, whether or not they made an event. `passedOn`: the requests to pass on, in the order of the reset execution.
 */
export async function readRepeated(
  { sessionId, executionId, after, passedOn }: Reset,
  events: EventsInStore,
  client: Client,
): Promise<RepeatedRequests> {
  const history = await historyOf(sessionId, executionId, client)
  const resetAt = resetIn(history)
  // The server sends everything again before it schedules a task. Later requests are new, even if they equal earlier ones.
  const end = history.findIndex((event, at) => at > resetAt && event.workflowTaskScheduledEventAttributes)
  const activities = await activitiesIn(history.slice(0, Math.max(0, resetAt)), client)
  const settledAt = activities.findLast(({ input }) => watermarkIn(input))?.at ?? -1
  const all = receivedIn(history)
  const perhaps = all.filter((one) => one.at < end && (one.at > settledAt || isInProgressAt(settledAt, one)))
  const { carried } = (await startIn(history, client)) ?? {}
  const settled = watermarkBefore(perhaps[0]?.at ?? 0, activities, seqOf(carried))
  const done = await doneOf(perhaps, events, settled, history, client)
  const completed = after === undefined ? [] : completedIn(await historyOf(sessionId, after, client))
  const updates = new Set(passedOn?.flatMap((one) => (one.kind === 'update' ? one.id : [])))
  const isRepeated = (one: ReceivedRequest, place: number): boolean => {
    if (passedOn) return one.kind !== 'update' || !updates.has(one.id)
    return done.has(place) || (one.kind === 'update' && completed.includes(one.id))
  }
  const repeated = new Set(perhaps.filter(isRepeated))
  const signals = all.filter((one) => one.kind === 'signal')
  return {
    signals: signals.flatMap((one, place) => (repeated.has(one) ? [place] : [])),
    updates: all.flatMap((one) => (one.kind === 'update' && repeated.has(one) ? [one.id] : [])),
  }
}

/** Leaves out the requests that were carried out according to the stored events above `settled`. */
async function withoutStored(received: ReceivedRequest[], ...stored: StoredHistory): Promise<ReceivedRequest[]> {
  const done = await doneOf(received, ...stored)
  return received.filter((_, place) => !done.has(place))
}

type StoredHistory = [events: EventsInStore, settled: number, history: readonly HistoryEvent[], client: Client]

/**
 * The indexes of the requests that were carried out according to the stored events above `settled`. These events may end anywhere before
 * the next activity.
 */
async function doneOf(
  received: readonly ReceivedRequest[],
  ...[{ upTo, areOthers, after }, settled, history, client]: StoredHistory
): Promise<ReadonlySet<number>> {
  if (areOthers || settled >= upTo || received.length === 0) return new Set()
  const opener = startedOf(history)?.originalExecutionRunId
  let events: SessionEvent[] = []
  let hasBegun = false
  for await (const event of after(settled)) {
    if (event.seq > upTo) break
    // Earlier executions made the events before this one. An execution that was reset to its beginning opens the session again.
    if ((event.type === 'session_resumed' || event.type === 'session_started') && event.executionId === opener) {
      if (!hasBegun) events = []
      hasBegun = true
    }
    if (isOfRequest(event)) events.push(event)
  }
  return alreadyStored(await Promise.all(received.map((one) => requestIn(one, client))), events)
}
