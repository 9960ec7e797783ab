// Finds a session's earlier executions that were ended from outside. The side store knows which execution loaded the session last, and
// histories name its successors; both sources are consistent. The server's lists are not: they are used only for executions that the store
// cannot know, because it was unavailable during their whole lifetime.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, isGrpcServiceError, type WorkflowExecutionStatusName, WorkflowNotFoundError } from '@temporalio/client'
import { type HistoryEvent, isHistoryGone } from '../connect/histories.ts'
import { isObject } from '../session/json.ts'
import { soundAnswered } from '../session/protocol/answered.ts'
import { type AnsweredRequest, workflowIdOf } from '../session/protocol/protocol.ts'
import { decodedOrNothing } from './history-payloads.ts'

/** Close events of executions that had no time to store their events. */
const CUT_OFF: readonly WorkflowExecutionStatusName[] = ['TERMINATED', 'FAILED', 'TIMED_OUT', 'CANCELLED']
/** Statuses that an execution that has just ended may still have in lists. */
const PERHAPS_CUT_OFF = "('Terminated', 'Failed', 'TimedOut', 'Canceled', 'Running')"
/** How long to wait for the lists to include an execution. From then on, they include all earlier ones, too. */
const LISTED_WITHIN_MS = 3_000
/** The first pause between two list requests. Each later pause is twice as long, because a namespace may send few list requests. */
const FIRST_PAUSE_MS = 100
const RESOURCE_EXHAUSTED = 8
/** HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT: only the last event. */
const CLOSE_EVENT = 2

interface ClosedExecution {
  executionId: string
  status: WorkflowExecutionStatusName
  startedAt: number
}

/** Executions before one that loads its session. */
interface EarlierExecutions {
  /** Those that were ended from outside, oldest first. */
  cutOff: string[]
  /** The newest one, if it closed the session itself. */
  closed?: string
}

/**
 * The executions before `own` that were ended from outside, and the newest if it was not. `last`: the one that loaded the session last, from the store.
 * `erasedAt`: the server may still have executions from before the erasure, which must not come back.
 */
export async function cutOffBefore(
  sessionId: string,
  { own, last, erasedAt }: { own: string; last: string | null; erasedAt: number | null },
  client: Client,
): Promise<EarlierExecutions> {
  // This execution has loaded the session before, including all abandoned events.
  if (last === own) return { cutOff: [] }
  const known = last === null ? undefined : await describe(sessionId, last, client)
  const end = known && (await endOfChain(sessionId, known, client))
  const listed = await listedBefore(sessionId, own, client)
  const described = await Promise.all(listed.filter((id) => id !== end?.executionId).map((id) => describe(sessionId, id, client)))
  const since = Math.max(known?.startedAt ?? 0, erasedAt ?? 0)
  const cutOff = [end, ...described]
    .filter((one) => one !== undefined)
    .filter(({ status, startedAt }) => CUT_OFF.includes(status) && startedAt >= since)
    .sort((a, b) => a.startedAt - b.startedAt)
    .map(({ executionId }) => executionId)
  return end?.status === 'COMPLETED' && end.startedAt >= since ? { cutOff, closed: end.executionId } : { cutOff }
}

/** The result of an execution that closed its session: the requests that it, or earlier ones, carried out. */
export async function answeredBy(sessionId: string, executionId: string, client: Client): Promise<AnsweredRequest[]> {
  const event = await closeEventOf(sessionId, executionId, client)
  const result = await decodedOrNothing(client, event?.workflowExecutionCompletedEventAttributes?.result?.payloads?.[0])
  return soundAnswered(isObject(result) ? result.answered : undefined)
}

/** Returns undefined if the server no longer has the execution. */
async function describe(sessionId: string, executionId: string, client: Client): Promise<ClosedExecution | undefined> {
  try {
    const { status, startTime } = await client.workflow.getHandle(workflowIdOf(sessionId), executionId).describe()
    return { executionId, status: status.name, startedAt: startTime.getTime() }
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/** The last execution of the continue-as-new chain that starts here. */
async function endOfChain(sessionId: string, from: ClosedExecution, client: Client): Promise<ClosedExecution> {
  let end = from
  while (end.status === 'CONTINUED_AS_NEW') {
    const next = await successorOf(sessionId, end.executionId, client)
    const described = next === undefined ? undefined : await describe(sessionId, next, client)
    if (!described) return end
    end = described
  }
  return end
}

async function successorOf(sessionId: string, executionId: string, client: Client): Promise<string | undefined> {
  const event = await closeEventOf(sessionId, executionId, client)
  return event?.workflowExecutionContinuedAsNewEventAttributes?.newExecutionRunId ?? undefined
}

/** The last event of an ended execution; undefined if the server no longer has it. */
async function closeEventOf(sessionId: string, executionId: string, client: Client): Promise<HistoryEvent | undefined> {
  try {
    const { history } = await client.connection.workflowService.getWorkflowExecutionHistory({
      namespace: client.options.namespace,
      execution: { workflowId: workflowIdOf(sessionId), runId: executionId },
      historyEventFilterType: CLOSE_EVENT,
    })
    return history?.events?.at(-1)
  } catch (error) {
    if (isHistoryGone(error)) return undefined
    throw error
  }
}

/** The lists are trusted once they include this one. */
async function listedBefore(sessionId: string, own: string, client: Client): Promise<string[]> {
  const query = `WorkflowId = '${workflowIdOf(sessionId)}' AND ExecutionStatus IN ${PERHAPS_CUT_OFF}`
  const giveUpAt = Date.now() + LISTED_WITHIN_MS
  for (let pause = FIRST_PAUSE_MS; ; pause *= 2) {
    const ids: string[] = []
    try {
      for await (const { runId } of client.workflow.list({ query })) ids.push(runId)
    } catch (error) {
      // Many sessions may resume at once.
      if (!isBusy(error) || Date.now() >= giveUpAt) throw error
    }
    if (ids.includes(own) || Date.now() >= giveUpAt) return ids.filter((id) => id !== own)
    await sleep(pause)
  }
}

function isBusy(error: unknown): boolean {
  const cause = error instanceof Error && isGrpcServiceError(error.cause) ? error.cause : error
  return isGrpcServiceError(cause) && cause.code === RESOURCE_EXHAUSTED
}
