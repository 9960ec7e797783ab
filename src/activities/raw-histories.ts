// Reads executions that have ended from their raw histories: what they received and what their activities answered, whether or not a worker
// can replay them.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import { decoded } from '../connect/decoded.ts'
import { type HistoryEvent, newestFirst, watermarkIn } from '../connect/histories.ts'
import { defined } from '../session/defined.ts'
import { callIdOf } from '../session/ids.ts'
import type { SessionEvent } from '../session/events.ts'
import { isObject, jsonBytes } from '../session/json.ts'
import { type Continuation, type SessionStart, SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { alreadyStored, isOfRequest, type Request } from './already-stored.ts'
import type {
  CallModelInput,
  CallModelResult,
  ExecuteToolInput,
  ExecuteToolResult,
  Inherited,
  LoadSessionResult,
  PriorRequest,
  RepeatedRequests,
  Succession,
} from '../calls/activities.ts'

/**
 * A signal, a cancellation or an update in a history, and its place there. `endedAt`: where an update was completed. `details`: what an
 * earlier execution had passed on, instead of a payload.
 */
type Received = { kind: PriorRequest['kind']; at: number; endedAt?: number; id: string; name: string } & (
  | { payload: Payload | null | undefined }
  | { details: unknown }
)

/** What the stored events lack. `lost`: what a session that continues without it would lose besides. */
export interface Unstored {
  received: PriorRequest[]
  answers: Inherited[]
  lost: string | undefined
}

/** One result of an activity carries the answers to the session that continues. */
const MAX_ANSWERS_BYTES = 1_500_000

/** WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW. */
const RESET = 20

/**
 * How far an execution was when it was ended. `unbegun`: it has never completed a workflow task, so it made no events; `reset`: neither has
 * it, since an operator reset another one to an earlier point. `failing`: its newest task could not be completed. Queries of these fail, are
 * never answered, or answer as if there had been no reset.
 */
export async function endOf(sessionId: string, executionId: string, client: Client): Promise<'unbegun' | 'reset' | 'failing' | 'ordinary'> {
  const { namespace } = client.options
  let isFailing = false
  for await (const event of newestFirst(client.workflowService, { namespace, workflowId: workflowIdOf(sessionId), executionId })) {
    if (event.workflowTaskCompletedEventAttributes) return isFailing ? 'failing' : 'ordinary'
    if (isReset(event)) return 'reset'
    isFailing ||= event.workflowTaskFailedEventAttributes != null
  }
  return 'unbegun'
}

/** What an execution that took the session for a new one received, in order: without late results, which are of its own calls, and updates. */
export async function readMistaken(sessionId: string, executionId: string, client: Client): Promise<PriorRequest[]> {
  const received = receivedIn(await historyOf(sessionId, executionId, client))
  const isOfSession = ({ kind, name }: Received): boolean => kind !== 'update' && name !== SIGNALS.lateResult
  return Promise.all(received.filter(isOfSession).map((one) => passedOn(one, executionId, client)))
}

/** Whether the execution has loaded its session: with it, what earlier ones had passed on. */
export async function hasLoaded(sessionId: string, executionId: string, client: Client): Promise<boolean> {
  const history = await historyOf(sessionId, executionId, client)
  const resetAt = resetIn(history)
  const own = (await activitiesIn(history, client)).filter(({ at }) => at > resetAt)
  return (await loadedBy(own, client)) !== undefined
}

/** The stored events of the session. */
export interface EventsInStore {
  /** `seq` of the newest. */
  upTo: number
  /** Whether none of them can be of the execution's requests. */
  areOthers?: boolean
  /** Those above a `seq`. */
  after(seq: number): AsyncIterable<SessionEvent>
}

/** Reads what an ended execution received, and what its activities answered, after the newest stored event of the session was made. */
export async function readUnstored(sessionId: string, executionId: string, events: EventsInStore, client: Client): Promise<Unstored> {
  const { upTo: stored } = events
  const history = await historyOf(sessionId, executionId, client)
  const activities = await activitiesIn(history, client)
  // A workflow task handles all signals and results before it schedules an activity, so the events that it names include them. An update
  // may wait for an activity, and makes its events afterwards.
  const { at: newest = -1, input } =
    activities.findLast(({ input }) => (watermarkIn(input)?.seq ?? Number.POSITIVE_INFINITY) <= stored) ?? {}
  const loaded = await loadedBy(activities, client)
  const passed = passedOnTo(loaded)
  const all = [...passed, ...receivedIn(history).filter(({ kind, id }) => kind !== 'update' || passed.every((one) => one.id !== id))]
  const { carried } = (await startIn(history, client)) ?? {}
  const carriedUpTo = seqOf(carried)
  const mistaken = carried || loaded ? undefined : startedOf(history)?.continuedExecutionRunId
  const open = all.filter((one) => isInProgressAt(newest, one) || (isOfEnd(one) && one.at <= newest))
  const inProgress = [...closingOf(carried), ...open]
  const before = watermarkBefore(inProgress[0]?.at ?? 0, activities, carriedUpTo)
  const early = await withoutStored(inProgress, events, before, history, client)
  const late = all.filter((one) => one.at > newest)
  const later = await withoutStored(late, events, watermarkIn(input)?.seq ?? carriedUpTo, history, client)
  const requests = await Promise.all([...early, ...later].map((one) => passedOn(one, executionId, client)))
  const received = [...(mistaken ? await readMistaken(sessionId, mistaken, client) : []), ...requests]
  const unanswered = activities.filter(({ at, endedAt }) => at > newest || endedAt === undefined || endedAt > newest)
  const answers = [...inheritedBy(carried, loaded), ...(await answersIn(unanswered, client))]
  const scheduled = unanswered.filter(({ at }) => at > newest)
  const lost =
    newest < 0 && carriedUpTo > stored ? 'events that an earlier execution passed on to it' : lostWith(received, scheduled, answers)
  return { received, answers, lost }
}

/** What the execution had itself from one that could not be replayed. Answers that it has used match no call or turn that is still open. */
export async function readInherited(sessionId: string, executionId: string, client: Client): Promise<Inherited[]> {
  const history = await historyOf(sessionId, executionId, client)
  const { carried } = (await startIn(history, client)) ?? {}
  return inheritedBy(carried, await loadedBy(await activitiesIn(history, client), client))
}

const inheritedBy = (carried: Continuation | undefined, loaded: Succession | undefined): Inherited[] => [
  ...((carried?.inherited ?? []) as Inherited[]),
  ...(loaded?.answers ?? []),
]

/** The newest event that an execution began with. */
const seqOf = (carried: Continuation | undefined): number => (carried ? carried.state.seq + (carried.tail?.length ?? 0) : 0)

/**
 * Reads which of the requests of this execution were carried out before: an operator reset another one to an earlier point, after which the
 * server sent its requests again. `after`: that one, if all of its events are stored: then the updates that it completed are done, whether
 * or not they made an event.
 */
export async function readRepeated(
  { sessionId, executionId, after }: { sessionId: string; executionId: string; after: string | undefined },
  events: EventsInStore,
  client: Client,
): Promise<RepeatedRequests> {
  const history = await historyOf(sessionId, executionId, client)
  const resetAt = resetIn(history)
  // The server sends everything again before it schedules a task. What comes later is new, even if it equals something before.
  const end = history.findIndex((event, at) => at > resetAt && event.workflowTaskScheduledEventAttributes)
  const activities = await activitiesIn(history.slice(0, Math.max(0, resetAt)), client)
  const settledAt = activities.findLast(({ input }) => watermarkIn(input))?.at ?? -1
  const all = receivedIn(history)
  const perhaps = all.filter((one) => one.at < end && (one.at > settledAt || isInProgressAt(settledAt, one)))
  const { carried } = (await startIn(history, client)) ?? {}
  const settled = watermarkBefore(perhaps[0]?.at ?? 0, activities, seqOf(carried))
  const done = await doneOf(perhaps, events, settled, history, client)
  const completed = after === undefined ? [] : completedIn(await historyOf(sessionId, after, client))
  const repeated = new Set(perhaps.filter((one, place) => done.has(place) || (one.kind === 'update' && completed.includes(one.id))))
  const signals = all.filter((one) => one.kind === 'signal')
  return {
    signals: signals.flatMap((one, place) => (repeated.has(one) ? [place] : [])),
    updates: all.flatMap((one) => (one.kind === 'update' && repeated.has(one) ? [one.id] : [])),
  }
}

/** Whether it ends the session, which has no event of it until it closes. */
function isOfEnd({ kind, name }: Received): boolean {
  return kind === 'cancellation' || (kind === 'signal' && name === SIGNALS.close)
}

/** Whether it is an update that arrived by this place, and was completed after it, or not at all. */
function isInProgressAt(place: number, one: Received): boolean {
  return one.kind === 'update' && one.at <= place && (one.endedAt === undefined || one.endedAt > place)
}

/** The newest event of the session that an activity before this place of the history names; without one, that with which it began. */
function watermarkBefore(place: number, activities: readonly Activity[], begunAt: number): number {
  return watermarkIn(activities.findLast(({ at, input }) => at < place && watermarkIn(input))?.input)?.seq ?? begunAt
}

/** The ids of the updates that were completed, also by a refusal. */
function completedIn(history: readonly HistoryEvent[]): string[] {
  return history.flatMap(({ workflowExecutionUpdateCompletedEventAttributes: completed }) => completed?.meta?.updateId ?? [])
}

/** Leaves out what the stored events above `settled` show to be done. */
async function withoutStored(received: Received[], ...stored: Stored): Promise<Received[]> {
  const done = await doneOf(received, ...stored)
  return received.filter((_, place) => !done.has(place))
}

type Stored = [events: EventsInStore, settled: number, history: readonly HistoryEvent[], client: Client]

/** The places of what the stored events above `settled` show to be done: they may end anywhere before the next activity. */
async function doneOf(
  received: readonly Received[],
  ...[{ upTo, areOthers, after }, settled, history, client]: Stored
): Promise<ReadonlySet<number>> {
  if (areOthers || settled >= upTo || received.length === 0) return new Set()
  const opener = startedOf(history)?.originalExecutionRunId
  let events: SessionEvent[] = []
  let hasBegun = false
  for await (const event of after(settled)) {
    if (event.seq > upTo) break
    // Earlier executions made the events before. One that was reset to its beginning opens the session again.
    if ((event.type === 'session_resumed' || event.type === 'session_started') && event.executionId === opener) {
      if (!hasBegun) events = []
      hasBegun = true
    }
    if (isOfRequest(event)) events.push(event)
  }
  return alreadyStored(await Promise.all(received.map((one) => requestIn(one, client))), events)
}

async function requestIn(received: Received, client: Client): Promise<Request> {
  const { kind, name } = received
  return { kind, name, details: 'details' in received ? received.details : await decodedOrNothing(client, received.payload) }
}

/** The same for every execution that it is passed on to: a message without an id has one from here on. */
async function passedOn(received: Received, executionId: string, client: Client): Promise<PriorRequest> {
  const { kind, name, details } = await requestIn(received, client)
  const { id } = received
  if (kind === 'update') return { kind, name, details, id }
  const isUnnamed = name === SIGNALS.message && isObject(details) && details.messageId === undefined
  return { kind, name, details: isUnnamed ? { ...details, messageId: `${executionId}/${id}` } : details }
}

/** They precede all that the execution received itself. */
function passedOnTo({ requests = [] }: Succession = {}): Received[] {
  return requests.map((one) => ({ ...one, at: 0, id: one.kind === 'update' ? one.id : '' }))
}

/** An activity of an execution, and the places of its scheduling and of its end in the history. */
interface Activity {
  name: string
  input: unknown
  at: number
  endedAt?: number
  result?: Payload | undefined
}

async function activitiesIn(history: readonly HistoryEvent[], client: Client): Promise<Activity[]> {
  const byEvent = new Map<string, Activity>()
  for (const [at, event] of history.entries()) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskCompletedEventAttributes: completed } = event
    if (scheduled) {
      const input = await decodedOrNothing(client, scheduled.input?.payloads?.[0])
      byEvent.set(String(event.eventId), { name: scheduled.activityType?.name ?? '', input, at })
    }
    const end =
      completed ??
      event.activityTaskFailedEventAttributes ??
      event.activityTaskTimedOutEventAttributes ??
      event.activityTaskCanceledEventAttributes
    const ended = end && byEvent.get(String(end.scheduledEventId))
    if (ended) Object.assign(ended, { endedAt: at, result: completed?.result?.payloads?.[0] })
  }
  return [...byEvent.values()]
}

/** What the execution has loaded, and with it what earlier ones had passed on. */
async function loadedBy(activities: readonly Activity[], client: Client): Promise<LoadSessionResult | undefined> {
  for (const { name, result } of activities.toReversed()) {
    if (name !== 'loadSession' || !result) continue
    const loaded = await decodedOrNothing(client, result)
    if (isObject(loaded) && 'found' in loaded) return loaded as unknown as LoadSessionResult
  }
  return undefined
}

/** What those activities answered, in their order; without an answer, what a tool's body did is not known. */
async function answersIn(activities: readonly Activity[], client: Client): Promise<Inherited[]> {
  const answers: Inherited[] = []
  for (const { name, input, result: payload } of activities) {
    const result = await decodedOrNothing(client, payload)
    if (name === 'callModel' && result !== undefined) {
      const { run, turn } = input as CallModelInput
      answers.push({ of: 'model', run, turn, result: result as CallModelResult })
    }
    if (name === 'executeTool') {
      const { run, turn, resolution, untilServed } = input as ExecuteToolInput
      const callId = callIdOf(run, turn, resolution.index, resolution.generation)
      if (!untilServed) answers.push({ of: 'call', run, turn, callId, ...defined({ result: result as ExecuteToolResult | undefined }) })
    }
  }
  return answers
}

/**
 * What a session that continues with these would lose: effects must not be repeated, nor decisions of clients vanish. Calls that the stored
 * events do not name can be made anew only in the first run that follows, if nothing but messages came in between.
 */
function lostWith(received: readonly PriorRequest[], scheduled: readonly Activity[], answers: readonly Inherited[]): string | undefined {
  if (scheduled.some(({ name }) => name === 'loadFork')) return 'events of the session that it forked'
  if (jsonBytes(answers) > MAX_ANSWERS_BYTES) return 'results of calls that are too large to pass on'
  const runs = answers.flatMap((answer) => (answer.of === 'model' && answer.result.kind === 'completed' ? [answer.run] : []))
  const isOfAnother = scheduled.some(
    ({ name, input }) => name === 'executeTool' && runs.some((run) => run < (input as ExecuteToolInput).run),
  )
  const isNew = scheduled.some(
    ({ name, input }) =>
      name === 'executeTool' && answers.some((answer) => answer.of === 'model' && isOfTurn(answer, input as ExecuteToolInput)),
  )
  const onlyMessages = received.every((one) => one.kind === 'signal' && one.name !== SIGNALS.interrupt)
  return isOfAnother || (isNew && !onlyMessages) ? 'tool calls' : undefined
}

const isOfTurn = (one: { run: number; turn: number }, { run, turn }: ExecuteToolInput): boolean => one.run === run && one.turn === turn

async function historyOf(sessionId: string, executionId: string, client: Client): Promise<HistoryEvent[]> {
  return (await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()).events ?? []
}

const startedOf = ([first]: readonly HistoryEvent[]) => first?.workflowExecutionStartedEventAttributes

async function startIn(history: readonly HistoryEvent[], client: Client): Promise<Partial<SessionStart> | undefined> {
  const start = await decodedOrNothing(client, startedOf(history)?.input?.payloads?.[0])
  return isObject(start) ? start : undefined
}

/** An earlier execution was asked to close, or cancelled, and passed that on. */
function closingOf(carried: Continuation | undefined): Received[] {
  if (!carried?.closing) return []
  const { when, by } = carried.closing
  const close: Received = { kind: 'signal', at: 0, id: '1', name: SIGNALS.close, details: defined({ by }) }
  return when === 'now' ? [close, { kind: 'cancellation', at: 0, id: '1', name: 'cancel', details: {} }] : [close]
}

const isReset = ({ workflowTaskFailedEventAttributes: failed }: HistoryEvent): boolean => failed?.cause === RESET

/** The place of the newest reset; -1 without one. */
function resetIn(history: readonly HistoryEvent[]): number {
  return history.findLastIndex(isReset)
}

/** What an execution received, in order, except for updates that it accepted and then refused: their senders know. */
function receivedIn(history: readonly HistoryEvent[]): Received[] {
  const received: Received[] = []
  const byId = new Map<string, Received>()
  const byAcceptance = new Map<string, Received | undefined>()
  const refused = new Set<Received>()
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
      const update: Received = { kind: 'update', at, id, name: input?.name ?? '', payload: input?.args?.payloads?.[0] }
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

/**
 * Any client may have written the payload. Returns undefined if the converter cannot read it: the session would have refused it. Rejects if a
 * codec fails, which may be for lack of a key: nothing must be dropped for that.
 */
async function decodedOrNothing(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  const { payloadCodecs, payloadConverter, ...rest } = client.options.loadedDataConverter
  const lenient: typeof payloadConverter = {
    toPayload: (value) => payloadConverter.toPayload(value),
    fromPayload<T>(one: Payload): T {
      try {
        return payloadConverter.fromPayload(one)
      } catch {
        return undefined as T
      }
    },
  }
  const value = await decoded({ ...rest, payloadCodecs, payloadConverter: lenient }, payload)
  return value instanceof Undecodable ? undefined : value
}
