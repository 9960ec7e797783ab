// Reads executions that have ended from their raw histories: what they received and what their activities answered, whether or not a worker
// can replay them.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import { decoded } from '../connect/decoded.ts'
import { type HistoryEvent, newestFirst, watermarkIn } from '../connect/histories.ts'
import { defined } from '../session/defined.ts'
import { callIdOf } from '../session/events.ts'
import { jsonBytes } from '../session/json.ts'
import { type SessionStart, SIGNALS, workflowIdOf } from '../session/protocol/protocol.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import type { CallModelInput, CallModelResult, ExecuteToolInput, ExecuteToolResult, Inherited } from './contract.ts'

/** A signal or an update as the execution received it. */
export interface Received {
  eventId: string
  kind: 'signal' | 'update'
  name: string
  /** Undefined if it cannot be decoded. */
  argument: unknown
  /** An update's id. */
  updateId?: string
}

/** What the stored events lack. `lost`: what a session that continues without it would lose besides. */
export interface Unstored {
  received: Received[]
  answers: Inherited[]
  lost: string | undefined
}

/** One result of an activity carries the answers to the session that continues. */
const MAX_ANSWERS_BYTES = 1_500_000

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
export async function readSignals(sessionId: string, executionId: string, client: Client): Promise<Received[]> {
  return receivedIn(
    (await historyOf(sessionId, executionId, client)).filter((event) => event.workflowExecutionSignaledEventAttributes),
    client,
  )
}

/** Reads what an ended execution received, and what its activities answered, after the event `stored` of the session was made. */
export async function readUnstored(sessionId: string, executionId: string, stored: number, client: Client): Promise<Unstored> {
  const history = await historyOf(sessionId, executionId, client)
  const activities = await activitiesIn(history, client)
  // A workflow task handles all signals and results before it schedules an activity, so the events that it names include them.
  const { at: newest = -1 } = activities.findLast(({ input }) => (watermarkIn(input)?.seq ?? Number.POSITIVE_INFINITY) <= stored) ?? {}
  // A close has no event until the session closes.
  const isUnstored = (event: HistoryEvent, at: number): boolean =>
    at > newest || event.workflowExecutionSignaledEventAttributes?.signalName === SIGNALS.close
  const received = [...(await closingOf(history[0], client)), ...(await receivedIn(history.filter(isUnstored), client))]
  const open = activities.filter(({ at, endedAt }) => at > newest || endedAt === undefined || endedAt > newest)
  const answers = await answersIn(open, client)
  const isFirst = !history[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId
  const lost =
    newest < 0 && !isFirst
      ? 'events that an earlier execution passed on to it'
      : lostWith(
          received,
          open.filter(({ at }) => at > newest),
          answers,
        )
  return { received, answers, lost }
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

/** What those activities answered, in their order; without an answer, what a tool's body did is not known. */
async function answersIn(activities: readonly Activity[], client: Client): Promise<Inherited[]> {
  const answers: Inherited[] = []
  for (const { name, input, result: payload } of activities) {
    const result = await decodedOrNothing(client, payload)
    // An execution that was itself the successor of one that could not be replayed passes on what it had not used yet.
    if (name === 'loadSession') answers.push(...((result as { answers?: Inherited[] } | undefined)?.answers ?? []))
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
function lostWith(received: readonly Received[], scheduled: readonly Activity[], answers: readonly Inherited[]): string | undefined {
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
  const onlyMessages = received.every(({ name }) => name === SIGNALS.message || name === SIGNALS.lateResult || name === SIGNALS.close)
  return isOfAnother || (isNew && !onlyMessages) ? 'tool calls' : undefined
}

const isOfTurn = (one: { run: number; turn: number }, { run, turn }: ExecuteToolInput): boolean => one.run === run && one.turn === turn

async function historyOf(sessionId: string, executionId: string, client: Client): Promise<HistoryEvent[]> {
  return (await client.workflow.getHandle(workflowIdOf(sessionId), executionId).fetchHistory()).events ?? []
}

/** An earlier execution was asked to close, and passed that on. */
async function closingOf(first: HistoryEvent | undefined, client: Client): Promise<Received[]> {
  const start = await decodedOrNothing(client, first?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0])
  const { closing } = (start as SessionStart | undefined)?.carried ?? {}
  return closing ? [{ eventId: '1', kind: 'signal', name: SIGNALS.close, argument: defined({ by: closing.by }) }] : []
}

async function receivedIn(events: readonly HistoryEvent[], client: Client): Promise<Received[]> {
  const received: Received[] = []
  for (const event of events) {
    const { workflowExecutionSignaledEventAttributes: signal, workflowExecutionUpdateAcceptedEventAttributes: update } = event
    const eventId = String(event.eventId)
    if (signal) {
      const argument = await decodedOrNothing(client, signal.input?.payloads?.[0])
      received.push({ eventId, kind: 'signal', name: signal.signalName ?? '', argument })
    }
    const request = update?.acceptedRequest
    if (request) {
      const argument = await decodedOrNothing(client, request.input?.args?.payloads?.[0])
      received.push({ eventId, kind: 'update', name: request.input?.name ?? '', argument, updateId: request.meta?.updateId ?? eventId })
    }
  }
  return received
}

/** Any client may have written the payload. Returns undefined if it cannot be decoded: the session would have refused it. */
async function decodedOrNothing(client: Client, payload: Payload | null | undefined): Promise<unknown> {
  const value = await decoded(client.options.loadedDataConverter, payload).catch(() => undefined)
  return value instanceof Undecodable ? undefined : value
}
