// Finds the calls with an effect that ran as part of a model call (`RidingEffect`) in an execution that has ended: it may not have handled
// their outcomes, and the session must not make them again.
import type { Client } from '@temporalio/client'
import type { CallModelResult } from '../calls/activities.ts'
import type { HistoryEvent } from '../connect/histories.ts'
import { readReport } from '../session/attempts.ts'
import { workflowIdOf } from '../session/protocol/protocol.ts'
import type { Activity, MadeCall } from './answered.ts'
import { decodedOrNothing } from './history-payloads.ts'

/** The calls that the execution's model calls made. Asks the server for the report of an attempt that was in progress at the end. */
export async function callsMadeBy(
  activities: readonly Activity[],
  { sessionId, executionId }: { sessionId: string; executionId: string },
  client: Client,
): Promise<Map<Activity, MadeCall>> {
  const made = new Map<Activity, MadeCall>()
  for (const activity of activities) {
    if (activity.name !== 'callModel') continue
    const { endedAt, result: payload } = activity
    const result = payload && ((await decodedOrNothing(client, payload)) as CallModelResult | undefined)
    if (result) {
      if (hasEffect(result)) made.set(activity, { result })
      continue
    }
    const report = endedAt === undefined ? await heartbeatOf(activity, { sessionId, executionId }, client) : activity.report
    const { riding } = readReport(await decodedOrNothing(client, report)).report ?? {}
    if (riding) made.set(activity, { lost: riding })
  }
  return made
}

/** The activities whose outcome the execution had not handled when it ended, because no workflow task had followed it. */
export function notHandled(activities: readonly Activity[], history: readonly HistoryEvent[]): Activity[] {
  const handledAt = history.findLastIndex((event) => event.workflowTaskCompletedEventAttributes)
  return activities.filter(({ endedAt = Number.POSITIVE_INFINITY }) => endedAt > handledAt)
}

function hasEffect(result: CallModelResult): boolean {
  if (result.kind !== 'completed') return false
  const { calls, rides = [] } = result
  return rides.some(({ index }) => calls.some((call) => call.index === index && call.effect !== 'read'))
}

/** The details of the newest heartbeat, which the server keeps with an activity that never ended. */
async function heartbeatOf({ id }: Activity, { sessionId, executionId }: { sessionId: string; executionId: string }, client: Client) {
  const { raw } = await client.workflow.getHandle(workflowIdOf(sessionId), executionId).describe()
  return raw.pendingActivities?.find(({ activityId }) => activityId === id)?.heartbeatDetails?.payloads?.[0]
}
