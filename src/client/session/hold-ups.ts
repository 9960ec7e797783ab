// What keeps a session from answering, found by asking only Temporal, without a worker or Postgres.
import { type Client, type WorkflowExecutionDescription, WorkflowNotFoundError } from '@temporalio/client'
import { onTemporal } from '../../connect/deadline.ts'
import { workflowIdOf } from '../../session/protocol/protocol.ts'
import { type PendingStep, UNREADABLE } from '../../session/watching/waits.ts'
import { SessionNotFoundError, SessionUnavailableError } from '../errors.ts'
import { msOf, type PendingActivity, pendingActivitiesOf, pendingStepsOf } from './pending-steps.ts'
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** Why an open session makes no progress. */
export interface HoldUp {
  /** For people, such as `a worker on task queue "pawl"`. */
  waitsFor: string
  /** What to do about it: a sentence. */
  advice: string
  /** A worker is working on it, so a caller need not give up. */
  passing?: true
  /** No worker has picked it up. */
  isUnserved?: true
  /** When that began, in milliseconds since 1970, if the server says. */
  since?: number
}

/** Whether a session is open; if so, what holds it up, if anything, and its pending steps. */
export type ExecutionState = { open: false } | { open: true; taskQueue: string; holdUp?: HoldUp; steps: PendingStep[] }

/** A worker usually picks up a step within milliseconds. */
const PICKED_UP_WITHIN_MS = 2_000
/** The server's state for a workflow task that no worker has picked up. */
const SCHEDULED = 1
/** How long a request waits for a session that is held up by something that may last. */
const HELD_UP_MS = 30_000

/** The state of a session's newest execution. @throws WorkflowNotFoundError, ConnectError. */
export async function executionStateOf(client: Client, sessionId: string): Promise<ExecutionState> {
  const description = await onTemporal(client, () => client.workflow.getHandle(workflowIdOf(sessionId)).describe())
  const { status, taskQueue } = description
  if (status.name !== 'RUNNING') return { open: false }
  const activities = await pendingActivitiesOf(client, description)
  const holdUp = waitingTask(description) ?? loadingPast(activities, taskQueue)
  return { open: true, taskQueue, ...(holdUp && { holdUp }), steps: pendingStepsOf(activities) }
}

/** What holds it up, unless that has just begun or a worker is working on it. */
export function lastingHoldUp({ holdUp }: { holdUp?: HoldUp }): HoldUp | undefined {
  const { since = 0, passing } = holdUp ?? {}
  return passing || Date.now() - since < PICKED_UP_WITHIN_MS ? undefined : holdUp
}

/** Busy workers may leave a step for a moment, and during a deploy the next attempt may reach a build that serves it. */
const SERVED_WITHIN_MS = 10_000
const SERVED_BY_ATTEMPT = 3

/** What holds up an open session for more than a moment: the workflow itself, or a step that no worker takes or serves. */
export function stuckOn(execution: ExecutionState & { open: true }): HoldUp | undefined {
  return lastingHoldUp(execution) ?? unservedStep(execution)
}

/** The step that no worker takes, or that every worker hands back. */
function unservedStep({ steps, taskQueue }: ExecutionState & { open: true }): HoldUp | undefined {
  const unserved = steps.find(({ attempt, since = Date.now(), heldUp }) => {
    if (heldUp?.for !== 'worker') return false
    return heldUp.reason === undefined ? Date.now() - since >= SERVED_WITHIN_MS : attempt >= SERVED_BY_ATTEMPT
  })
  return unserved && noWorkerOn(taskQueue, unserved.heldUp?.reason)
}

/** No worker picked it up, or none could carry it out. */
function noWorkerOn(taskQueue: string, reason?: string): HoldUp {
  const waitsFor = `a worker on task queue "${taskQueue}"${reason === undefined ? '' : ` (${reason})`}`
  return { waitsFor, advice: startOne(undefined), isUnserved: true }
}

function startOne(agent: string | undefined): string {
  const serving = agent === undefined ? '' : ` that serves the agent "${agent}"`
  return `Start one${serving} with \`${SUGGESTIONS.startWorker()}\`, or check the queue’s name.`
}

/** `agent`: the session's, if the caller knows it. */
function adviceFor({ isUnserved, advice }: HoldUp, agent: string | undefined): string {
  return isUnserved ? startOne(agent) : advice
}

/** What holds the session up, and what to do about it, in sentences; undefined if no cause is known. */
export async function whyHeldUp({ client, sessionId, agent }: SessionToCheck): Promise<string | undefined> {
  const execution = await executionStateOf(client, sessionId)
  const holdUp = execution.open ? stuckOn(execution) : undefined
  return holdUp && `The session waits for ${holdUp.waitsFor}. ${adviceFor(holdUp, agent)}`
}

/** The error for a session that is held up. `holdUp` is undefined if the cause is not known. */
function heldUp(
  { sessionId, agent }: Omit<SessionToCheck, 'client'>,
  holdUp: HoldUp | undefined,
  cause?: unknown,
): SessionUnavailableError {
  if (!holdUp) return new SessionUnavailableError(sessionId, { what: 'is being opened', advice: 'Ask again.', isOpening: true, cause })
  const { waitsFor, passing: isOpening } = holdUp
  const advice = adviceFor(holdUp, agent)
  return new SessionUnavailableError(sessionId, {
    what: `waits for ${waitsFor}`,
    advice: `${advice} Requests that it has received are kept.`,
    waitsFor,
    ...defined({ isOpening }),
    cause,
  })
}

/** A session that may be held up; `agent`: the agent's name, if it is known. */
interface SessionToCheck {
  client: Client
  sessionId: string
  agent?: string | undefined
}

/** What holds a session up, checked from time to time. */
export interface HoldUps {
  look(): Promise<HoldUp | undefined>
  /** Rejects when it has been held up for too long. */
  tooLong: Promise<never>
}

/** Watches a session that was sent a request. */
export function watchHoldUps({ client, sessionId, agent }: SessionToCheck): HoldUps {
  let since: number | undefined
  let giveUp: (why: SessionUnavailableError) => void = () => {}
  const tooLong = new Promise<never>((_, reject) => {
    giveUp = reject
  })
  // If the answer arrives first, nothing awaits this promise.
  tooLong.catch(() => undefined)
  return {
    tooLong,
    async look() {
      const execution = await executionStateOf(client, sessionId)
      const holdUp = execution.open ? execution.holdUp : undefined
      since = holdUp && !holdUp.passing ? (since ?? Date.now()) : undefined
      if (holdUp && since !== undefined && Date.now() - since >= HELD_UP_MS) giveUp(heldUp({ sessionId, agent }, holdUp))
      return holdUp && { ...holdUp, advice: adviceFor(holdUp, agent) }
    },
  }
}

/**
 * The error that says why a session could not be read. `failed`: the error of the query to its workflow, absent if it is still being
 * opened; `storeError`: why the store could not answer either.
 */
export async function whyUnavailable(
  { client, sessionId, agent }: SessionToCheck,
  { failed, storeError }: { failed?: unknown; storeError?: unknown },
): Promise<SessionNotFoundError | SessionUnavailableError> {
  const execution = await executionStateOf(client, sessionId).catch((error: unknown) => ({ error }))
  if ('open' in execution && execution.open) {
    const holdUp = becauseOf(storeError, execution.holdUp) ?? (failed === undefined ? undefined : noWorkerOn(execution.taskQueue))
    return heldUp({ sessionId, agent }, holdUp && isOpening(holdUp, failed) ? undefined : holdUp, failed ?? storeError)
  }
  const unknown = 'error' in execution ? execution.error : failed
  if (storeError !== undefined) return unreadable(sessionId, storeError)
  // A workflow that closed before it opened the session was started for a request, and found that no such session exists.
  if (unknown === undefined || unknown instanceof WorkflowNotFoundError) return new SessionNotFoundError(sessionId, { cause: unknown })
  if ('error' in execution) return unreadable(sessionId, unknown)
  return new SessionUnavailableError(sessionId, { what: 'has closed, and no worker read its history in time', cause: unknown })
}

/** Whether a worker is about to carry out its next step: one has just answered, or the step was only just scheduled. */
function isOpening({ isUnserved, since }: HoldUp, failed: unknown): boolean {
  if (!isUnserved) return false
  return failed === undefined || (since !== undefined && Date.now() - since < PICKED_UP_WITHIN_MS)
}

/** Why Postgres did not answer this client, until the worker says why Postgres does not answer the worker. */
function becauseOf(storeError: unknown, holdUp: HoldUp | undefined): HoldUp | undefined {
  if (!holdUp?.passing || !(storeError instanceof Error)) return holdUp
  return waitingForPast(storeError)
}

function waitingForPast({ message }: { message: string }): HoldUp {
  return {
    waitsFor: `Postgres, which holds its past (${firstSentenceOf(message)})`,
    advice: 'It continues automatically. A session without a past does not need to wait. Send its first message with { isNew: true }.',
  }
}

function unreadable(sessionId: string, cause: unknown): SessionUnavailableError {
  const reason = cause instanceof Error ? `: ${firstSentenceOf(cause.message)}` : ''
  return new SessionUnavailableError(sessionId, { what: `cannot be read${reason}`, advice: 'Ask again later.', cause })
}

/** A worker is reading the session's past, or that of the session it was forked from. */
function loadingPast(activities: readonly PendingActivity[], taskQueue: string): HoldUp | undefined {
  const loading = activities.find(({ activityType }) => activityType?.name?.startsWith('load'))
  if (!loading) return undefined
  const { lastFailure, lastStartedTime, scheduledTime } = loading
  if (lastFailure?.applicationFailureInfo?.type === UNREADABLE) {
    return {
      waitsFor: `a worker that can read its earlier execution (${firstSentenceOf(lastFailure.message ?? '')})`,
      advice: 'Roll the deploy back, or continue without what cannot be read: recover the session with the strategy abandon.',
    }
  }
  if (lastFailure?.message) return waitingForPast({ message: lastFailure.message })
  if (!lastStartedTime) return { ...noWorkerOn(taskQueue), ...defined({ since: msOf(scheduledTime) }) }
  return { waitsFor: 'Postgres, which holds its past', advice: 'Ask again.', passing: true }
}

/** The rest of a failure's message is meant for other readers. */
function firstSentenceOf(text: string): string {
  return (text.split(/\.\s+(?=[A-Z])/, 1)[0] ?? text).replace(/\.$/, '')
}

/** A task that no worker has picked up, or that none has completed. */
function waitingTask({ raw, taskQueue }: WorkflowExecutionDescription): HoldUp | undefined {
  const { pendingWorkflowTask: task } = raw
  const attempt = Number(task?.attempt ?? 1)
  const since = defined({ since: msOf(task?.originalScheduledTime) })
  if (attempt > 1) {
    return {
      waitsFor: `a worker on task queue "${taskQueue}" that completes its next step (attempt ${attempt})`,
      advice:
        'The workers’ log says why none has completed it. If none can, pawl continues the session in a new execution (option healAfter).',
      ...since,
    }
  }
  return task?.state === SCHEDULED ? { ...noWorkerOn(taskQueue), ...since } : undefined
}
