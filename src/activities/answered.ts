// Reads from an execution's raw history which activities it had and what they returned.
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
import type { RidingEffect } from '../session/attempts.ts'

/** An activity of an execution, with the positions in history at which it was scheduled and ended. */
export interface Activity {
  id: string
  name: string
  input: unknown
  at: number
  endedAt?: number
  result?: Payload | undefined
  /** The report of its last attempt, if it failed. */
  report?: Payload | undefined
}

export async function activitiesIn(history: readonly HistoryEvent[], client: Client): Promise<Activity[]> {
  const byEvent = new Map<string, Activity>()
  for (const [at, event] of history.entries()) {
    const { activityTaskScheduledEventAttributes: scheduled, activityTaskCompletedEventAttributes: completed } = event
    if (scheduled) {
      const input = await decodedOrNothing(client, scheduled.input?.payloads?.[0])
      byEvent.set(String(event.eventId), { id: scheduled.activityId ?? '', name: scheduled.activityType?.name ?? '', input, at })
    }
    const lost = event.activityTaskFailedEventAttributes ?? event.activityTaskTimedOutEventAttributes
    const end = completed ?? lost ?? event.activityTaskCanceledEventAttributes
    const ended = end && byEvent.get(String(end.scheduledEventId))
    if (!ended) continue
    const { applicationFailureInfo: failed, timeoutFailureInfo: timedOut, resetWorkflowFailureInfo: reset } = lost?.failure ?? {}
    const report = (failed?.details ?? timedOut?.lastHeartbeatDetails ?? reset?.lastHeartbeatDetails)?.payloads?.[0]
    Object.assign(ended, { endedAt: at, result: completed?.result?.payloads?.[0], report })
  }
  return [...byEvent.values()]
}

/** The answer of the model that ended a run, if nothing happened between it and this position in history. */
export async function finalAnswerIn(activities: readonly Activity[], place: number, client: Client): Promise<Activity | undefined> {
  const newest = activities.findLast(({ name, at }) => at < place && OF_RUNS.includes(name))
  if (newest?.name !== 'callModel' || newest.endedAt === undefined || newest.endedAt > place) return undefined
  const answer = await decodedOrNothing(client, newest.result)
  const { kind, calls } = (isObject(answer) ? answer : {}) as Partial<CallModelResult & { kind: 'completed' }>
  return kind === 'completed' && calls?.length === 0 ? newest : undefined
}

/** Activities that a run waits for. */
export const OF_RUNS: readonly string[] = ['callModel', 'compact', 'executeTool', 'verifyTool', 'endHooks']

/** What the execution loaded, including what earlier executions had passed on. */
export async function loadedBy(activities: readonly Activity[], client: Client): Promise<LoadSessionResult | undefined> {
  for (const { name, result } of activities.toReversed()) {
    if (name !== 'loadSession' || !result) continue
    const loaded = await decodedOrNothing(client, result)
    if (isObject(loaded) && 'found' in loaded) return loaded as unknown as LoadSessionResult
  }
  return undefined
}

/** A call that a model call made. `lost`: nothing is known of its outcome. Otherwise, the result of the model call has it. */
export type MadeCall = { lost: RidingEffect; result?: undefined } | { lost?: undefined; result: CallModelResult }

/** The model's answer, and what is known of the call. */
export function answersOf({ input }: Activity, { lost, result }: MadeCall): PriorAnswer[] {
  const { run, turn } = input as CallModelInput
  if (result) return [{ of: 'model', run, turn, result }]
  const answered = lost.answered as CallModelResult
  return [
    { of: 'model', run, turn, result: answered },
    { of: 'call', run, turn, callId: lost.callId },
  ]
}

/**
 * The results of these activities, in order. If a tool call has no result, it is not known what its body did. `made`: the calls that they
 * made as part of model calls.
 */
export async function answersIn(
  activities: readonly Activity[],
  made: ReadonlyMap<Activity, MadeCall>,
  client: Client,
): Promise<PriorAnswer[]> {
  const answers: PriorAnswer[] = []
  for (const activity of activities) {
    const { name, input, result: payload } = activity
    const call = made.get(activity)
    if (call) {
      answers.push(...answersOf(activity, call))
      continue
    }
    const result = await decodedOrNothing(client, payload)
    if (name === 'callModel' && result !== undefined) {
      const { run, turn } = input as CallModelInput
      answers.push({ of: 'model', run, turn, result: result as CallModelResult })
    }
    if (name === 'executeTool') {
      const { run, turn, resolution, prior, untilServed, untilAdmitted } = input as ExecuteToolInput
      const callId = callIdOf(run, turn, resolution.index, resolution.generation)
      // It only waited, so the call has not begun.
      const waited = untilServed || untilAdmitted ? ({ kind: 'not_begun', attempt: prior?.attempts ?? 0 } as const) : undefined
      const known = waited ?? (result as ExecuteToolResult | undefined)
      answers.push({ of: 'call', run, turn, callId, ...defined({ result: known }) })
    }
  }
  return answers
}

/**
 * The newest event of the session named by an activity before this position in history; without one, the event with which the execution
 * began.
 */
export function watermarkBefore(place: number, activities: readonly Activity[], begunAt: number): number {
  return watermarkIn(activities.findLast(({ at, input }) => at < place && watermarkIn(input))?.input)?.seq ?? begunAt
}
