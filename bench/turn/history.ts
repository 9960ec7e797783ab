// What a chain of executions says about its turns and tasks: when each began, and how many bytes of history precede it.
import type { Client } from '@temporalio/client'
import proto, { type temporal } from '@temporalio/proto'

const { HistoryEvent } = proto.temporal.api.history.v1
type Event = temporal.api.history.v1.IHistoryEvent

/** The beginning of a turn: its model call is scheduled. */
export interface TurnBegin {
  atMs: number
  /** Bytes of history, of the whole chain, before this. */
  bytesBefore: number
  /** The part of them that executions carried over to the next. */
  carriedBefore: number
}

/** The beginnings of a workflow's turns in order, including those of the executions that it continued as. */
export async function turnsOf(client: Client, workflowId: string, modelActivity: string): Promise<TurnBegin[]> {
  const turns: TurnBegin[] = []
  let bytesBefore = 0
  let carriedBefore = 0
  for (const event of await chainOf(client, workflowId)) {
    if (event.activityTaskScheduledEventAttributes?.activityType?.name === modelActivity)
      turns.push({ atMs: timeOf(event), bytesBefore, carriedBefore })
    const bytes = HistoryEvent.encode(event).finish().length
    bytesBefore += bytes
    if (event.workflowExecutionContinuedAsNewEventAttributes || event.workflowExecutionStartedEventAttributes) carriedBefore += bytes
  }
  return turns
}

/** A completed workflow task: its results are in history from then on. */
interface DoneTask {
  /** The time that the workflow received, and gave its events. */
  startedMs: number
  completedMs: number
}

/** The completed workflow tasks of a chain of executions, in order. */
export async function tasksOf(client: Client, workflowId: string): Promise<DoneTask[]> {
  const tasks: DoneTask[] = []
  let startedMs = 0
  for (const event of await chainOf(client, workflowId)) {
    if (event.workflowTaskStartedEventAttributes) startedMs = Math.floor(timeOf(event))
    if (event.workflowTaskCompletedEventAttributes) tasks.push({ startedMs, completedMs: timeOf(event) })
  }
  return tasks
}

/** How many workflow tasks of a chain of executions ran into their timeout after a worker had taken them. */
export async function timedOutTasksOf(client: Client, workflowId: string): Promise<number> {
  const events = await chainOf(client, workflowId)
  return events.filter((event) => Number(event.workflowTaskTimedOutEventAttributes?.startedEventId ?? 0) > 0).length
}

/** The types of the activities that a chain of executions scheduled, in order. */
export async function activitiesOf(client: Client, workflowId: string): Promise<string[]> {
  const events = await chainOf(client, workflowId)
  return events.flatMap((event) => event.activityTaskScheduledEventAttributes?.activityType?.name ?? [])
}

/** How many events a chain of executions has. */
export async function historyLengthOf(client: Client, workflowId: string): Promise<number> {
  return (await chainOf(client, workflowId)).length
}

/** How many bytes of history a chain of executions has. */
export async function historyBytesOf(client: Client, workflowId: string): Promise<number> {
  return (await chainOf(client, workflowId)).reduce((sum, event) => sum + HistoryEvent.encode(event).finish().length, 0)
}

/** All events of a chain of executions, the oldest first. */
async function chainOf(client: Client, workflowId: string): Promise<Event[]> {
  const executions: Event[][] = []
  let runId: string | undefined
  do {
    const { events } = await client.workflow.getHandle(workflowId, runId).fetchHistory()
    executions.unshift(events ?? [])
    runId = events?.[0]?.workflowExecutionStartedEventAttributes?.continuedExecutionRunId || undefined
  } while (runId)
  return executions.flat()
}

function timeOf({ eventTime }: Event): number {
  return Number(eventTime?.seconds ?? 0) * 1_000 + (eventTime?.nanos ?? 0) / 1e6
}
