// Requests that need an answer from a session: updates of its workflow, which is reopened for them if it has closed; and what Temporal's own
// view shows of a workflow that starts.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Client,
  isGrpcServiceError,
  ServiceError,
  WithStartWorkflowOperation,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
  type WorkflowUpdateHandle,
  WorkflowUpdateRPCTimeoutOrCancelledError,
  type WorkflowStartOptions,
} from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/common'
import { onTemporal } from '../../connect/deadline.ts'
import { type TellWait, reportIfSlow } from '../../connect/waits.ts'
import { sha256Of } from '../../store/blobs.ts'
import { refusalIn, type SessionStart, WORKFLOW_TASK_TIMEOUT_MS, WORKFLOW_TYPE, workflowIdOf } from '../../session/protocol/protocol.ts'
import { namedRequest } from '../../session/protocol/request-names.ts'
import { canonicalJson } from '../../session/canonical.ts'
import { RequestRefusedError, SessionNotFoundError, SessionUnavailableError } from '../errors.ts'
import { type HoldUps, watchHoldUps } from './hold-ups.ts'
import { type StartIndexed, searchAttributesOf } from '../../connect/search-attributes.ts'
import { defined } from '../../session/defined.ts'
import { jsonBytes } from '../../session/json.ts'
import { takeTurns, type Turns } from '../../waiting/in-turn.ts'
import { labelOf } from '../../session/watching/label.ts'
import type { Priority } from '../types.ts'

const FAILED_PRECONDITION = 9
const NOT_READY_MS = 30_000
const BETWEEN_TRIES_MS = 500
/** How long a request may take to be accepted: far longer than a worker's crash and a replay take. */
const ACCEPTED_MS = 30_000
/** How long an accepted request may take: a rollback waits for the run to stop, and that may include a tool's `verify`. */
const CARRIED_OUT_MS = 10 * 60_000

/** The session that a request is sent to. */
export interface UpdateTarget {
  client: Client
  sessionId: string
  taskQueue: string
  settings: SessionStart['settings']
  tell: TellWait | undefined
  /** For a workflow that the request starts. */
  shown: StartLabels
  indexed: StartIndexed
}

/**
 * The id of an update: the same for each request with this id and these details, regardless of its sender. Ids belong to a method, because the
 * server does not compare them. `details` is absent for a signal, whose sender would not learn that it was refused.
 */
export function updateIdOf(update: string, requestId: string | undefined, details?: object): string {
  if (requestId === undefined) return randomUUID()
  return namedRequest(update, requestId, sha256Of, details && canonicalJson({ ...details, by: undefined, roles: undefined }))
}

/** Carries out an update; a session whose workflow has closed is resumed for it. @throws RequestRefusedError, SessionNotFoundError. */
export async function ask<R>(asked: UpdateTarget, update: string, request?: object, requestId?: string): Promise<R> {
  const workflow = asked.client.workflow.getHandle(workflowIdOf(asked.sessionId))
  // Sent again with the same id, the update is carried out only once.
  const updateId = updateIdOf(update, requestId, request ?? {})
  return refusable(asked.sessionId, async () => {
    try {
      return await sendUpdate(asked, () =>
        request === undefined
          ? workflow.startUpdate<R, []>(update, { updateId, waitForStage: 'ACCEPTED' })
          : workflow.startUpdate<R, [object]>(update, { updateId, args: [request], waitForStage: 'ACCEPTED' }),
      )
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error
      const { sessionId, settings } = asked
      return startFor<R>(
        asked,
        update,
        request === undefined ? [] : [request],
        { sessionId, mustExist: true, ...(settings && { settings }) },
        'USE_EXISTING',
        updateId,
      )
    }
  })
}

/** Starts a session's workflow and carries out an update in it. */
export function startFor<R>(
  asked: UpdateTarget,
  update: string,
  args: object[],
  start: SessionStart,
  workflowIdConflictPolicy: 'USE_EXISTING' | 'FAIL',
  updateId = randomUUID() as string,
): Promise<R> {
  const { client, taskQueue, shown, indexed } = asked
  return sendUpdate({ ...asked, sessionId: start.sessionId }, () =>
    startShown<WorkflowUpdateHandle<R>>(indexed, { ...shown, ...defined({ tags: start.tags }) }, (view) => {
      const startWorkflowOperation = new WithStartWorkflowOperation(WORKFLOW_TYPE, {
        ...view,
        workflowId: workflowIdOf(start.sessionId),
        taskQueue,
        workflowTaskTimeout: WORKFLOW_TASK_TIMEOUT_MS,
        workflowIdConflictPolicy,
        args: [start],
      })
      // The update rejects with the same error.
      startWorkflowOperation.workflowHandle().catch(() => undefined)
      return client.workflow.startUpdateWithStart(update, {
        updateId,
        args,
        startWorkflowOperation,
        waitForStage: 'ACCEPTED',
      })
    }),
  )
}

/**
 * Sends an update and waits for its answer while the session works on it, but not for a worker or a Postgres that may never be available.
 * @throws SessionUnavailableError, ConnectError.
 */
export async function sendUpdate<R>(asked: UpdateTarget, start: () => Promise<WorkflowUpdateHandle<R>>): Promise<R> {
  const { client, sessionId, shown, tell = () => undefined } = asked
  const holdUps = watchHoldUps({ client, sessionId, agent: shown.agent })
  const outcome = async (): Promise<R> => {
    const handle = await accepted(asked, holdUps, start)
    return handle.result().catch((error: unknown) => {
      throw isCutOff(error) ? unfinished(sessionId, 'had not carried it out when its execution ended', error) : error
    })
  }
  const answer = onTemporal(client, outcome, CARRIED_OUT_MS).catch((error: unknown) => {
    if (!(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError)) throw error
    throw unfinished(sessionId, `has not carried it out within ${CARRIED_OUT_MS / 60_000} minutes`)
  })
  const waitsFor = async (): Promise<string> => {
    const holdUp = await holdUps.look()
    return holdUp ? `session "${sessionId}", which waits for ${holdUp.waitsFor}` : `session "${sessionId}" to carry it out`
  }
  return reportIfSlow(tell, waitsFor, Promise.race([answer, holdUps.tooLong]))
}

/** The server's type of the failure of an update whose execution had accepted it, and ended before it was carried out. */
const CUT_OFF = 'AcceptedUpdateCompletedWorkflow'

/** Whether the execution that had accepted an update has ended. The next execution may carry the update out, so it must not be sent again. */
function isCutOff(error: unknown): boolean {
  if (error instanceof WorkflowNotFoundError) return true
  return error instanceof WorkflowUpdateFailedError && error.cause instanceof ApplicationFailure && error.cause.type === CUT_OFF
}

/** An accepted request without an answer. `what`: the rest of a sentence about the session. */
function unfinished(sessionId: string, what: string, cause?: unknown): SessionUnavailableError {
  return new SessionUnavailableError(sessionId, {
    what: `accepted the request, and ${what}`,
    advice: 'It may still do so. Check its state.',
    cause,
  })
}

/** Only a live worker can accept an update: without one, the server would hold the request indefinitely. */
async function accepted<R>(
  { client, sessionId }: UpdateTarget,
  holdUps: HoldUps,
  start: () => Promise<WorkflowUpdateHandle<R>>,
): Promise<WorkflowUpdateHandle<R>> {
  return client.withDeadline(Date.now() + ACCEPTED_MS, start).catch(async (error: unknown) => {
    if (!(error instanceof WorkflowUpdateRPCTimeoutOrCancelledError)) throw error
    const { waitsFor = 'a worker', advice = 'Start one.' } = (await holdUps.look().catch(() => undefined)) ?? {}
    // The error has no `cause`, because the timeout says nothing more.
    throw new SessionUnavailableError(sessionId, {
      what: `has not accepted the request within ${ACCEPTED_MS / 1_000} s: it waits for ${waitsFor}`,
      advice: `${advice} The request may still be carried out.`,
      waitsFor,
    })
  })
}

/** Sends the update, retries while the workflow is not ready for one, and turns its failure into the matching error. */
export async function refusable<R>(sessionId: string, update: () => Promise<R>): Promise<R> {
  const giveUpAt = Date.now() + NOT_READY_MS
  try {
    for (;;) {
      try {
        return await update()
      } catch (error) {
        if (!isNotReady(error) || Date.now() > giveUpAt) throw error
        await sleep(BETWEEN_TRIES_MS)
      }
    }
  } catch (cause) {
    if (isNotReady(cause))
      throw new SessionUnavailableError(sessionId, { what: 'has lost its worker, and no other worker has taken it over', cause })
    if (!(cause instanceof WorkflowUpdateFailedError && cause.cause instanceof ApplicationFailure)) throw cause
    const { type } = cause.cause
    if (type === 'session_not_found') throw new SessionNotFoundError(sessionId, { cause })
    throw new RequestRefusedError(type ?? 'invalid_request', refusalIn(cause.cause), { cause })
  }
}

/** The server accepts no updates if the workflow's newest tasks were lost, as happens when a worker is killed. */
function isNotReady(error: unknown): boolean {
  return isGrpcServiceError(error) ? error.code === FAILED_PRECONDITION : error instanceof ServiceError && isNotReady(error.cause)
}

/** The server allows ten requests in flight to a session: ten of this size fit. */
const LARGE_BYTES = 250_000

const turnsOf = new WeakMap<Client, Turns>()

/**
 * Makes the request at once or, if it is large, after this process's earlier large requests to the session have ended. A workflow task
 * answers all requests that have arrived in one message, which includes them, and the server accepts at most 4 MB.
 */
export async function inTurn<R>(client: Client, sessionId: string, request: unknown, make: () => Promise<R>): Promise<R> {
  if (jsonBytes(request) <= LARGE_BYTES) return make()
  const inTheirTurn = turnsOf.get(client) ?? takeTurns()
  turnsOf.set(client, inTheirTurn)
  return inTheirTurn(sessionId, make)
}

/** What is known of a session when its workflow starts. */
export interface StartLabels {
  agent?: string
  tags?: readonly string[]
  priority?: Priority
}

/** The options of a start. */
export type StartView = Pick<WorkflowStartOptions, 'staticSummary' | 'priority' | 'typedSearchAttributes'>

/** Starts a workflow with the summary, the priority, and the search attributes that the namespace has. */
export function startShown<T>(
  indexed: StartIndexed,
  { agent, tags, priority }: StartLabels,
  start: (view: StartView) => Promise<T>,
): Promise<T> {
  // The summary passes the data converter and its codecs, like the arguments; search attributes do not.
  const view = defined({ staticSummary: labelOf(agent, tags) || undefined, priority })
  return indexed(searchAttributesOf(defined({ agent, tags })), (typed) => start({ ...view, ...typed }))
}
