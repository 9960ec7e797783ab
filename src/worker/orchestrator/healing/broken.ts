// Asks the server about an execution whose workflow task has failed: whether it still fails, since when, and what the execution began with.
import type { Client, WorkflowExecutionDescription, WorkflowStartOptions } from '@temporalio/client'
import { decoded } from '../../../connect/decoded.ts'
import { eventTime, firstOf, type HistoryEvent, isOfWorkflow, newestFirst } from '../../../connect/histories.ts'
import { isSearchAttribute } from '../../../connect/search-attributes.ts'
import { defined } from '../../../session/defined.ts'
import { checkStart, type Start } from '../../../session/protocol/start.ts'
import { Undecodable } from '../../../session/protocol/undecodable.ts'
import type { CachedExecution, FailingExecution } from '../../protocol.ts'

/** The options of a start that have nothing to do with what the workflow does. */
export type SuccessorView = Pick<WorkflowStartOptions, 'staticSummary' | 'priority' | 'typedSearchAttributes'>

export interface BrokenExecution {
  /** When the first task in a row failed, in milliseconds since 1970. */
  since: number
  reason: string
  /** An attempt of a model call or tool call is in progress: its result is worth waiting for. */
  isBusy: boolean
  start: Start
  /** The event that completed its last task. */
  completedAt: string
  /** How Temporal's UI shows it, and its priority. The next execution inherits both. */
  view: SuccessorView
}

/** The server's state for an activity that a worker has. */
const STARTED = 2
/**
 * Returns undefined if the execution makes progress, has ended, or has never completed a task: another execution would fail in the same
 * way.
 *
 * A task that times out does not count, because its worker may have died or be slow. However, the server records only the first attempt of
 * a task. If that attempt timed out, only `seen` tells since when the task has failed.
 */
export async function examine(
  client: Client,
  { workflowId, executionId, ...seen }: FailingExecution,
): Promise<BrokenExecution | undefined> {
  const description = await client.workflow.getHandle(workflowId, executionId).describe()
  const { pendingWorkflowTask: task } = description.raw
  if (description.status.name !== 'RUNNING' || !task) return undefined
  const place = { namespace: client.options.namespace, workflowId, executionId }
  let failed: Pick<BrokenExecution, 'since' | 'reason'> | undefined = Number(task.attempt ?? 1) > 1 ? seen : undefined
  let completedAt: string | undefined
  for await (const event of newestFirst(client.workflowService, place)) {
    if (event.workflowTaskCompletedEventAttributes) {
      completedAt = String(event.eventId)
      break
    }
    if (hasFailed(event))
      failed = { since: eventTime(event), reason: event.workflowTaskFailedEventAttributes?.failure?.message || seen.reason }
  }
  if (!failed || completedAt === undefined) return undefined
  return { ...failed, completedAt, isBusy: isBusy(description), start: await startOf(client, place), view: await viewOf(description) }
}

/** Whether the event says that a worker failed a task. */
function hasFailed({ workflowTaskFailedEventAttributes: failure }: HistoryEvent): boolean {
  return failure != null && isOfWorkflow(failure)
}

/** Whether the execution has completed a task or failed one; undefined if neither has happened yet. */
export async function firstTaskOf(
  client: Client,
  { workflowId, executionId }: CachedExecution,
): Promise<'completed' | 'failed' | undefined> {
  for await (const event of newestFirst(client.workflowService, { namespace: client.options.namespace, workflowId, executionId })) {
    if (event.workflowTaskCompletedEventAttributes) return 'completed'
    if (hasFailed(event)) return 'failed'
  }
  return undefined
}

function isBusy({ raw }: WorkflowExecutionDescription): boolean {
  return (raw.pendingActivities ?? []).some(
    ({ state, activityType }) => state === STARTED && ['callModel', 'executeTool', 'verifyTool'].includes(activityType?.name ?? ''),
  )
}

/** Without them, the session would leave Temporal's lists, or lose its priority. */
async function viewOf(description: WorkflowExecutionDescription): Promise<SuccessorView> {
  const { priority, typedSearchAttributes } = description
  const staticSummary = await description.staticSummary().catch(() => undefined)
  return {
    typedSearchAttributes: typedSearchAttributes.getAll().filter(({ key }) => isSearchAttribute(key.name)),
    ...(priority && defined({ priority })),
    ...defined({ staticSummary }),
  }
}

async function startOf(client: Client, place: CachedExecution & { namespace: string }): Promise<Start> {
  const started = (await firstOf(client.workflowService, place))?.workflowExecutionStartedEventAttributes
  const given = await decoded(client.options.loadedDataConverter, started?.input?.payloads?.[0]).catch(
    (error: unknown) => new Undecodable(String(error)),
  )
  return checkStart(given, started?.continuedExecutionRunId || undefined)
}
