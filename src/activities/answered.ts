// What an execution did, as its raw history has it: its activities, and what they answered.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'
import type {
  CallModelInput,
  CallModelResult,
  ExecuteToolInput,
  ExecuteToolResult,
  PriorAnswer,
  LoadSessionResult,
} from '../calls/activities.ts'
import { type HistoryEvent, watermarkIn } from '../connect/histories.ts'
import { defined } from '../session/defined.ts'
import { callIdOf } from '../session/ids.ts'
import { isObject } from '../session/json.ts'
import { decodedOrNothing } from './history-payloads.ts'

/** An activity of an execution, and the places of its scheduling and of its end in the history. */
export interface Activity {
  name: string
  input: unknown
  at: number
  endedAt?: number
  result?: Payload | undefined
}

export async function activitiesIn(history: readonly HistoryEvent[], client: Client): Promise<Activity[]> {
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

/** The model's answer that ended a run, if nothing was done between it and this place of the history. */
export async function finalAnswerIn(activities: readonly Activity[], place: number, client: Client): Promise<Activity | undefined> {
  const newest = activities.findLast(({ name, at }) => at < place && OF_RUNS.includes(name))
  if (newest?.name !== 'callModel' || newest.endedAt === undefined || newest.endedAt > place) return undefined
  const answer = await decodedOrNothing(client, newest.result)
  const { kind, calls } = (isObject(answer) ? answer : {}) as Partial<CallModelResult & { kind: 'completed' }>
  return kind === 'completed' && calls?.length === 0 ? newest : undefined
}

/** What a run waits for. */
const OF_RUNS: readonly string[] = ['callModel', 'compact', 'executeTool', 'verifyTool', 'endHooks']

/** What the execution has loaded, and with it what earlier ones had passed on. */
export async function loadedBy(activities: readonly Activity[], client: Client): Promise<LoadSessionResult | undefined> {
  for (const { name, result } of activities.toReversed()) {
    if (name !== 'loadSession' || !result) continue
    const loaded = await decodedOrNothing(client, result)
    if (isObject(loaded) && 'found' in loaded) return loaded as unknown as LoadSessionResult
  }
  return undefined
}

/** What those activities answered, in their order; without an answer, what a tool's body did is not known. */
export async function answersIn(activities: readonly Activity[], client: Client): Promise<PriorAnswer[]> {
  const answers: PriorAnswer[] = []
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

/** The newest event of the session that an activity before this place of the history names; without one, that with which it began. */
export function watermarkBefore(place: number, activities: readonly Activity[], begunAt: number): number {
  return watermarkIn(activities.findLast(({ at, input }) => at < place && watermarkIn(input))?.input)?.seq ?? begunAt
}
