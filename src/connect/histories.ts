// The raw histories of executions, which the server returns whether or not a worker can replay them.
import { isGrpcServiceError, type WorkflowService } from '@temporalio/client'
import type { temporal } from '@temporalio/proto'
import { defined } from '../session/defined.ts'
import type { Watermark } from '../session/events.ts'
import { isObject } from '../session/json.ts'

export type HistoryEvent = temporal.api.history.v1.IHistoryEvent

const NOT_FOUND = 5
const INVALID_ARGUMENT = 3

/**
 * Whether a request for a history failed because the server no longer has it. A server that can read archives, as the image of Temporal is
 * configured, reports this as an invalid argument if the namespace has never had an archive.
 */
export function isHistoryGone(error: unknown): boolean {
  if (!isGrpcServiceError(error)) return false
  return error.code === NOT_FOUND || (error.code === INVALID_ARGUMENT && /history not found/i.test(error.details))
}

/** An execution of a workflow in a namespace. */
export interface ExecutionPlace {
  namespace: string
  workflowId: string
  executionId: string
}

/** The events of an execution, newest first. Fetches a page only after the previous one has been consumed. */
export async function* newestFirst(
  service: WorkflowService,
  { namespace, workflowId, executionId }: ExecutionPlace,
  { pageSize: maximumPageSize }: { pageSize?: number } = {},
): AsyncGenerator<HistoryEvent> {
  const execution = { workflowId, runId: executionId }
  let nextPageToken: Uint8Array | undefined
  do {
    const page = await service.getWorkflowExecutionHistoryReverse({ namespace, execution, ...defined({ nextPageToken, maximumPageSize }) })
    yield* page.history?.events ?? []
    nextPageToken = page.nextPageToken?.length ? page.nextPageToken : undefined
  } while (nextPageToken)
}

/** The first event of an execution. */
export async function firstOf(
  service: WorkflowService,
  { namespace, workflowId, executionId }: ExecutionPlace,
): Promise<HistoryEvent | undefined> {
  const execution = { workflowId, runId: executionId }
  const { history } = await service.getWorkflowExecutionHistory({ namespace, execution, maximumPageSize: 1 })
  return history?.events?.[0]
}

/**
 * Causes by which the server itself fails a workflow task: of commands that came too late, resets, failovers, and closes. The values are those
 * of `WorkflowTaskFailedCause`.
 */
const NOT_OF_THE_WORKFLOW: ReadonlySet<number> = new Set([1, 13, 17, 18, 20])

/** Whether the task failed because of the workflow or its worker. */
export function isOfWorkflow({ cause }: temporal.api.history.v1.IWorkflowTaskFailedEventAttributes): boolean {
  return !NOT_OF_THE_WORKFLOW.has(cause ?? 0)
}

/** When the server recorded the event, in milliseconds since 1970. */
export function eventTime({ eventTime }: HistoryEvent): number {
  return Number(eventTime?.seconds ?? 0) * 1_000 + Math.trunc((eventTime?.nanos ?? 0) / 1_000_000)
}

/** The last event of a session that the input of one of its activities names; undefined if it names none. */
export function watermarkIn(input: unknown): Watermark | undefined {
  const { watermark } = (isObject(input) ? input : {}) as { watermark?: Watermark }
  return isObject(watermark) && typeof watermark.seq === 'number' && typeof watermark.digest === 'string' ? watermark : undefined
}
