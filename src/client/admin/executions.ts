// The executions of sessions in Temporal: lists them, reads their starting state and their events, and deletes them.
import { type Client, isGrpcDeadlineError, isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client'
import { decoded } from '../../connect/decoded.ts'
import { type HistoryEvent, isHistoryGone, newestFirst } from '../../connect/histories.ts'
import { queryEvents } from '../../connect/session-queries.ts'
import type { Watermark } from '../../session/events.ts'
import { type EventsPage, isSessionId, sessionIdOf, WORKFLOW_TYPE, workflowIdOf } from '../../session/protocol/protocol.ts'
import { checkStart, type Start } from '../../session/protocol/start.ts'
import { CHILD_PART, rootIdOf } from '../../session/agents/agent-calls.ts'
import type { SessionState } from '../../session/state.ts'

/** One execution of a session. */
export interface Execution {
  sessionId: string
  executionId: string
  taskQueue: string
  open: boolean
  startedAt: number
}

/** What an execution started with. */
export interface ExecutionStart {
  start: Start
  /** The execution that it continues. */
  previous?: string
  /** The session's state at that point, if the history has it. */
  snapshot?: { state: SessionState; digest: string }
}

/** No worker answered a query about an execution. */
export class NoWorker extends Error {}

/** A worker replays a closed execution to answer a query. */
const QUERY_TIMEOUT_MS = 20_000
const NOT_FOUND = 5
/** The server's code for a task queue that no worker has polled recently. */
const FAILED_PRECONDITION = 9
/** How many events at the start of a history are searched for what the execution started with. */
const BEGINNING_EVENTS = 50

/** Executions of the sessions of a task queue (`'*'`: of all), or of one session, as the visibility store lists them; newest first. */
export async function listExecutions(client: Client, which: { taskQueue: string } | { sessionId: string }): Promise<Execution[]> {
  const filter =
    'sessionId' in which
      ? ` and WorkflowId = '${workflowIdOf(which.sessionId)}'`
      : which.taskQueue === '*'
        ? ''
        : ` and TaskQueue = '${which.taskQueue.replaceAll("'", "''")}'`
  const found: Execution[] = []
  for await (const info of client.workflow.list({ query: `WorkflowType = '${WORKFLOW_TYPE}'${filter}` })) {
    found.push({
      sessionId: sessionIdOf(info.workflowId),
      executionId: info.runId,
      taskQueue: info.taskQueue,
      open: info.status.name === 'RUNNING',
      startedAt: info.startTime.getTime(),
    })
  }
  return found.sort((a, b) => b.startedAt - a.startedAt)
}

/** The newest execution of a session, read from the server, not from visibility; undefined if there is none. */
export async function newestExecution(client: Client, sessionId: string): Promise<Execution | undefined> {
  try {
    const { runId: executionId, taskQueue, status, startTime } = await client.workflow.getHandle(workflowIdOf(sessionId)).describe()
    return { sessionId, executionId, taskQueue, open: status.name === 'RUNNING', startedAt: startTime.getTime() }
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/**
 * A page of the events after `after` that an execution holds. Undefined if the execution no longer exists, or the session is not open yet.
 * @throws NoWorker.
 */
export async function eventsHeldBy(
  client: Client,
  execution: Pick<Execution, 'sessionId' | 'executionId'>,
  query: { after: number; maxBytes?: number },
): Promise<EventsPage | undefined> {
  try {
    return await queryEvents(client, execution, { ...query, lasting: true }, QUERY_TIMEOUT_MS)
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    const noWorker = isGrpcDeadlineError(error) || codeOf(error) === FAILED_PRECONDITION
    throw noWorker ? new NoWorker('no worker answered', { cause: error }) : error
  }
}

/** What an execution started with; undefined if its history no longer exists. Does not need a worker. */
export async function beginningOf(client: Client, sessionId: string, executionId: string): Promise<ExecutionStart | undefined> {
  let events: readonly HistoryEvent[]
  try {
    const { history } = await client.connection.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId: workflowIdOf(sessionId), runId: executionId },
      maximumPageSize: BEGINNING_EVENTS,
    })
    events = history?.events ?? []
  } catch (error) {
    if (isHistoryGone(error)) return undefined
    throw error
  }
  const started = events[0]?.workflowExecutionStartedEventAttributes
  const previous = started?.continuedExecutionRunId || undefined
  const start = checkStart(await decoded(client.options.loadedDataConverter, started?.input?.payloads?.[0]), previous)
  const snapshot = start.carried ?? (await loadedState(client, events))
  return { start, ...(previous && { previous }), ...(snapshot && { snapshot: { state: snapshot.state, digest: snapshot.digest } }) }
}

/** The result of the activity that loads the past of a resumed or forked session. */
async function loadedState(client: Client, events: readonly HistoryEvent[]): Promise<{ state: SessionState; digest: string } | undefined> {
  const loading = events.find(({ activityTaskScheduledEventAttributes: scheduled }) =>
    ['loadSession', 'loadFork'].includes(scheduled?.activityType?.name ?? ''),
  )
  const done = events.find(
    ({ activityTaskCompletedEventAttributes: completed }) =>
      loading && completed && String(completed.scheduledEventId) === String(loading.eventId),
  )
  const result = await decoded(client.options.loadedDataConverter, done?.activityTaskCompletedEventAttributes?.result?.payloads?.[0])
  const { state, digest } = (result ?? {}) as { state?: SessionState; digest?: string }
  return state && digest !== undefined ? { state, digest } : undefined
}

/** All executions of a session: those that visibility lists, and those that they continue. */
export async function allExecutions(client: Client, sessionId: string): Promise<Execution[]> {
  const newest = await newestExecution(client, sessionId)
  const found = new Map((await listExecutions(client, { sessionId })).map((one) => [one.executionId, one]))
  // Visibility is behind: only the newest execution can be open.
  for (const execution of found.values()) execution.open = false
  if (newest) found.set(newest.executionId, newest)
  for (const execution of found.values()) {
    const previous = (await beginningOf(client, sessionId, execution.executionId))?.previous
    // Visibility does not list it yet. Iterating over a map includes entries added during the iteration.
    if (previous && !found.has(previous)) found.set(previous, { ...execution, executionId: previous, open: false })
  }
  return [...found.values()].sort((a, b) => b.startedAt - a.startedAt)
}

/** The sessions that answer the session's agent calls, at any depth, according to the executions that the server still has. */
export async function childrenInTemporal(client: Client, sessionId: string): Promise<string[]> {
  const found = new Set<string>()
  const query = `WorkflowType = '${WORKFLOW_TYPE}' and WorkflowId STARTS_WITH '${workflowIdOf(`${sessionId}/`)}'`
  for await (const { workflowId, runId } of client.workflow.list({ query })) {
    const id = sessionIdOf(workflowId)
    if (!found.has(id) && (await isBelow(client, sessionId, { sessionId: id, executionId: runId }))) found.add(id)
  }
  return [...found]
}

/**
 * The sessions that an execution of the session has asked to answer its calls, according to its history: those that have just begun are in no
 * list yet.
 */
export async function childrenAskedBy(client: Client, { sessionId, executionId }: Execution): Promise<string[]> {
  const { namespace, loadedDataConverter } = client.options
  const asked = new Set<string>()
  const isChild = (id: unknown): id is string =>
    isSessionId(id) && id.startsWith(`${sessionId}/`) && id.length === sessionId.length + CHILD_PART
  try {
    const place = { namespace, workflowId: workflowIdOf(sessionId), executionId }
    for await (const { activityTaskScheduledEventAttributes: scheduled } of newestFirst(client.workflowService, place)) {
      if (scheduled?.activityType?.name !== 'askChildren') continue
      const { asks = [] } = (await decoded(loadedDataConverter, scheduled.input?.payloads?.[0])) as { asks?: { child?: unknown }[] }
      for (const { child } of asks) if (isChild(child)) asked.add(child)
    }
  } catch (error) {
    if (!isHistoryGone(error)) throw error
  }
  return [...asked]
}

/** Whether the session answers calls of the other one, directly or further down: a session of another tree may have an id that begins alike. */
async function isBelow(
  client: Client,
  ancestor: string,
  { sessionId, executionId }: Pick<Execution, 'sessionId' | 'executionId'>,
): Promise<boolean> {
  const { start, snapshot } = (await beginningOf(client, sessionId, executionId)) ?? {}
  const root = rootIdOf(sessionId, start?.caller ?? snapshot?.state.caller)
  return root !== undefined && root.length <= ancestor.length
}

/** Requests the server to delete an execution and its history, which it does soon after. A running execution is terminated. */
export async function deleteExecution(client: Client, { sessionId, executionId }: Execution): Promise<void> {
  try {
    await client.connection.workflowService.deleteWorkflowExecution({
      namespace: client.options.namespace,
      workflowExecution: { workflowId: workflowIdOf(sessionId), runId: executionId },
    })
  } catch (error) {
    if (codeOf(error) !== NOT_FOUND) throw error
  }
}

/** Whether the execution that returned `page` has the same event, by digest, at that position. */
export function holds(page: EventsPage, { seq, digest }: Watermark): boolean {
  return [page.to, page.base].some((held) => held.seq === seq && held.digest === digest)
}

function codeOf(error: unknown): number | undefined {
  if (isGrpcServiceError(error)) return error.code
  return error instanceof Error && error.cause !== undefined ? codeOf(error.cause) : undefined
}
