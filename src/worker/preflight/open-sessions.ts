// Reads the open sessions of a task queue and their histories from Temporal.
import type { Client } from '@temporalio/client'
import type { temporal } from '@temporalio/proto'
import { type HistoryEvent, isHistoryGone } from '../../connect/histories.ts'
import { WORKFLOW_TYPE } from '../../session/protocol/protocol.ts'

/** A Temporal history, decoded from the wire. */
export type History = temporal.api.history.v1.IHistory

/** An execution that was open when it was listed. */
export interface ListedExecution {
  workflowId: string
  executionId: string
}

export interface OpenExecution extends ListedExecution {
  history: History
}

/** The open sessions, page by page. The server's list may be a few seconds old. */
export async function* listOpen(client: Client, taskQueue: string): AsyncGenerator<ListedExecution> {
  const query = `WorkflowType = '${WORKFLOW_TYPE}' and ExecutionStatus = 'Running' and TaskQueue = '${taskQueue.replaceAll("'", "''")}'`
  // Between two pages of the list, a session can continue as new and appear again.
  const listed = new Set<string>()
  for await (const { workflowId, runId: executionId } of client.workflow.list({ query })) {
    if (listed.has(workflowId)) continue
    listed.add(workflowId)
    yield { workflowId, executionId }
  }
}

/** A random sample: each item has the same probability. */
export async function sampleOf<T>(items: AsyncIterable<T>, size: number): Promise<T[]> {
  const sample: T[] = []
  let seen = 0
  for await (const item of items) {
    seen += 1
    const place = Math.floor(Math.random() * seen)
    if (sample.length < size) sample.push(item)
    else if (place < size) sample[place] = item
  }
  return sample
}

/**
 * The session's open execution with its history: the listed execution, or the one that continues it. Undefined if the session has closed.
 */
export async function fetchOpen(client: Client, { workflowId, executionId }: ListedExecution): Promise<OpenExecution | undefined> {
  for (let next = executionId; ; ) {
    const history = await historyOf(client, workflowId, next)
    const last = history?.events?.at(-1)
    if (!history || !last) return undefined
    const continued = last.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId
    if (!continued) return isEnd(last) ? undefined : { workflowId, executionId: next, history }
    next = continued
  }
}

async function historyOf(client: Client, workflowId: string, executionId: string): Promise<History | undefined> {
  try {
    return await client.workflow.getHandle(workflowId, executionId).fetchHistory()
  } catch (error) {
    if (isHistoryGone(error)) return undefined
    throw error
  }
}

function isEnd(event: HistoryEvent): boolean {
  return [
    event.workflowExecutionCompletedEventAttributes,
    event.workflowExecutionFailedEventAttributes,
    event.workflowExecutionTimedOutEventAttributes,
    event.workflowExecutionCanceledEventAttributes,
    event.workflowExecutionTerminatedEventAttributes,
  ].some(Boolean)
}
