// Asks the server whether anything has reached a session since it asked the model. A pause, for example, must hold up the call that the
// model requests, and no answer to a heartbeat reports one.
import type { Client } from '@temporalio/client'
import type { Ticket } from '../../../calls/jobs.ts'
import { type HistoryEvent, newestFirst } from '../../../connect/histories.ts'

/** The newest events are in the first page, unless the session has done much since. */
const PAGE_SIZE = 4
const MAX_EVENTS = 24

/** Whether only the session's own steps are newer than the activity. */
export async function hasHeardNothing(
  { workflowService, options: { namespace } }: Client,
  { workflowId, executionId, activityId }: Ticket,
): Promise<boolean> {
  let looked = 0
  for await (const event of newestFirst(workflowService, { namespace, workflowId, executionId }, { pageSize: PAGE_SIZE })) {
    if (event.activityTaskScheduledEventAttributes?.activityId === activityId) return true
    if (!isOwnStep(event) || ++looked > MAX_EVENTS) return false
  }
  return false
}

function isOwnStep(event: HistoryEvent): boolean {
  return OWN_STEPS.some((attributes) => event[attributes] != null)
}

/** What the session's workflow tasks and its other activities leave in history. Anything else may be a request or a deadline. */
const OWN_STEPS = [
  'workflowTaskScheduledEventAttributes',
  'workflowTaskStartedEventAttributes',
  'workflowTaskCompletedEventAttributes',
  'workflowTaskFailedEventAttributes',
  'workflowTaskTimedOutEventAttributes',
  'activityTaskScheduledEventAttributes',
  'activityTaskStartedEventAttributes',
  'activityTaskCompletedEventAttributes',
  'activityTaskFailedEventAttributes',
  'activityTaskTimedOutEventAttributes',
  'markerRecordedEventAttributes',
  'timerStartedEventAttributes',
  'timerCanceledEventAttributes',
  'upsertWorkflowSearchAttributesEventAttributes',
  'workflowPropertiesModifiedEventAttributes',
] as const satisfies (keyof HistoryEvent)[]
