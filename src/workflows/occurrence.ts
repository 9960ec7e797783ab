// The workflow that a schedule starts at each of its times. It sends one message to a session, and knows nothing of sessions otherwise.
import { ApplicationFailure, proxyActivities, workflowInfo } from '@temporalio/workflow'
import type { PawlActivities } from '../calls/activities.ts'
import { isObject } from '../session/json.ts'
import { nominalTimeIn, type OccurrenceStart } from '../session/protocol/occurrence.ts'
import { ownTaskQueue } from '../session/protocol/protocol.ts'

/** Without a time limit: while the server cannot be reached, the occurrence waits. */
const RETRIED = { startToCloseTimeout: 30_000, retry: { initialInterval: 200, backoffCoefficient: 2, maximumInterval: 30_000 } }

/** One occurrence of a schedule: Temporal workflow `pawlOccurrence`, id `pawl-schedule:<schedule>-<time>`. */
export async function pawlOccurrence(given?: OccurrenceStart): Promise<void> {
  const { workflowId, taskQueue } = workflowInfo()
  const time = nominalTimeIn(workflowId)
  if (!isObject(given) || time === undefined)
    throw ApplicationFailure.nonRetryable('Only a schedule of pawl starts this workflow. Create a schedule.', 'invalid_occurrence')
  const { sendOccurrence } = proxyActivities<Pick<PawlActivities, 'sendOccurrence'>>({ ...RETRIED, taskQueue: ownTaskQueue(taskQueue) })
  await sendOccurrence({ start: given, time, taskQueue })
}
