// The occurrences of a task queue's schedules that have not sent their messages, as Temporal knows them.
import type { Client } from '@temporalio/client'
import { onTemporal } from '../../connect/deadline.ts'
import { nominalTimeIn, OCCURRENCE_TYPE, scheduleIn } from '../../session/protocol/occurrence.ts'
import type { ScheduleFacts } from './shared-judgements.ts'

const CALLS_MS = 10_000
/** How many are read of each kind. */
const MOST = 100
const DAY_MS = 24 * 3_600_000

/** `now`: the server's time. */
export async function unsentOccurrences(client: Client, taskQueue: string, now: number): Promise<ScheduleFacts> {
  const of = `WorkflowType = '${OCCURRENCE_TYPE}' and TaskQueue = '${taskQueue.replaceAll("'", "''")}'`
  const since = new Date(now - DAY_MS).toISOString()
  const list = async (query: string): Promise<ScheduleFacts['failed']> => {
    const found: { schedule: string; at: number }[] = []
    for await (const { workflowId, startTime, closeTime } of client.workflow.list({ query, pageSize: MOST })) {
      found.push({ schedule: scheduleOf(workflowId), at: (closeTime ?? startTime).getTime() })
      if (found.length === MOST) break
    }
    return found
  }
  return onTemporal(
    client,
    async () => {
      const [failed, waiting] = await Promise.all([
        list(`${of} and ExecutionStatus in ('Failed', 'Terminated', 'TimedOut', 'Canceled') and CloseTime > '${since}'`),
        list(`${of} and ExecutionStatus = 'Running'`),
      ])
      return {
        failed: failed.toSorted((one, other) => other.at - one.at),
        waiting: waiting.toSorted((one, other) => one.at - other.at),
      }
    },
    CALLS_MS,
  )
}

/** The schedule in the id of an occurrence's workflow, which ends with its time. */
function scheduleOf(workflowId: string): string {
  const time = nominalTimeIn(workflowId)
  const id = time === undefined ? workflowId : workflowId.slice(0, -(time.length + 1))
  return scheduleIn(id) ?? id
}
