// How the workflow schedules activities: timeouts, retry policies, and the meaning of their failures.
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  proxyActivities,
  TimeoutFailure,
  type ActivityOptions,
  workflowInfo,
} from '@temporalio/workflow'
import type { OwnActivity, PawlActivities } from '../calls/activities.ts'
import { type DeathReport, MAX_DEATHS, MAX_UNREPORTED, readReport, type ThrownDetails } from '../session/attempts.ts'
import type { Resolution } from '../session/call-facts.ts'
import { ownTaskQueue } from '../session/protocol/protocol.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'
import { cutText, TEXT_BYTES } from '../session/protocol/texts.ts'
import { EndedBefore } from './inherited.ts'

/** How much longer than its timeout an attempt may last, because a process with a blocked event loop is killed only after a minute. */
const FREEZE_ALLOWANCE_MS = 120_000
/**
 * How long after its last heartbeat an attempt counts as lost. A supervisor reports the death of an executor at once, so this matters only
 * for unreported deaths, such as a lost machine. It is long enough to survive a server outage of a few seconds and to need few heartbeats.
 */
const HEARTBEAT_TIMEOUT_MS = 10_000
/** Longer than any model call; missing heartbeats reveal a dead worker much earlier. */
const MODEL_CALL_MS = 3_600_000

const COMMON: ActivityOptions = { cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED }
/** This policy covers attempts that cannot report a result. The wrappers decide on all other retries themselves. */
const RETRIED = { initialInterval: 100, backoffCoefficient: 2, maximumInterval: 30_000 }

/**
 * What Temporal's UI shows for a step beside the activity's type. pawl counts the attempts itself, because most of them are separate
 * activities. The text passes through the converter and the codecs.
 */
export function summaryOf(step: string, { attempts }: { attempts: number }): string {
  return attempts > 0 ? `${step}, attempt ${attempts + 1}` : step
}

export function modelCalls(how: 'first' | 'again' | 'until_served', summary: string): Pick<PawlActivities, 'callModel' | 'compact'> {
  return proxyActivities<Pick<PawlActivities, 'callModel' | 'compact'>>({
    ...COMMON,
    summary,
    startToCloseTimeout: MODEL_CALL_MS,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    retry: { ...RETRIED, ...(how !== 'until_served' && { maximumAttempts: 1_000 }) },
    // After `not_served`, the next activity must be able to reach another worker.
    ...(how !== 'first' && { allowEagerDispatch: false }),
  })
}

/** The call's effect decides whether Temporal may retry the activity. */
export function toolCalls(
  resolution: Resolution,
  how: 'first' | 'again' | 'until_served',
  summary: string,
): Pick<PawlActivities, 'executeTool'> {
  const external = resolution.effect === 'external'
  return proxyActivities<Pick<PawlActivities, 'executeTool'>>({
    ...COMMON,
    summary,
    startToCloseTimeout: resolution.timeoutMs + FREEZE_ALLOWANCE_MS,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    retry:
      how === 'until_served'
        ? RETRIED
        : external
          ? { maximumAttempts: 1 }
          : { ...RETRIED, maximumAttempts: resolution.retry.maxRetries + MAX_DEATHS + MAX_UNREPORTED + 1 },
    ...(how !== 'first' && { allowEagerDispatch: false }),
  })
}

/** `verify` is a read. */
export function verifications(resolution: Resolution, how: 'first' | 'again'): Pick<PawlActivities, 'verifyTool'> {
  return proxyActivities<Pick<PawlActivities, 'verifyTool'>>({
    ...COMMON,
    summary: resolution.tool,
    startToCloseTimeout: (resolution.verifyTimeoutMs ?? resolution.timeoutMs) + FREEZE_ALLOWANCE_MS,
    heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
    retry: { ...RETRIED, maximumAttempts: (resolution.verifyRetries ?? 3) + 1 },
    ...(how === 'again' && { allowEagerDispatch: false }),
  })
}

/** For activities whose result the sender of an update awaits: they must finish or fail quickly. */
const ANSWERED_SOON: ActivityOptions = {
  startToCloseTimeout: 60_000,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumAttempts: 5 },
}

/** The session can wait for the store. Heartbeats every second reveal a worker's death early. */
const UNTIL_STORED: ActivityOptions = {
  startToCloseTimeout: 60_000,
  heartbeatTimeout: 5_000,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumInterval: 5_000 },
}

export const { resolveTool, checkAnswer } = proxyActivities<Pick<PawlActivities, 'resolveTool' | 'checkAnswer'>>(ANSWERED_SOON)

/** How long the hooks at the end of a run may delay the next run. */
const END_HOOKS_MS = 120_000

export const { endHooks } = proxyActivities<Pick<PawlActivities, 'endHooks'>>({
  scheduleToCloseTimeout: END_HOOKS_MS,
  heartbeatTimeout: HEARTBEAT_TIMEOUT_MS,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumInterval: 5_000, maximumAttempts: MAX_DEATHS },
})

export const findPlace = own('findPlace', ANSWERED_SOON)
export const findCalls = own('findCalls', ANSWERED_SOON)
export const findKept = own('findKept', ANSWERED_SOON)
/** For a recovery that no client waits for. */
export const findKeptUntilStored = own('findKept', UNTIL_STORED)
export const flush = own('flush', UNTIL_STORED)
export const loadSession = own('loadSession', UNTIL_STORED)
export const loadCalls = own('loadCalls', UNTIL_STORED)
export const loadFork = own('loadFork', UNTIL_STORED)

type OwnActivities = Pick<PawlActivities, OwnActivity>

/** Schedules one of pawl's own activities. Their task queue is known only while a workflow runs. */
function own<A extends OwnActivity>(activity: A, options: ActivityOptions): OwnActivities[A] {
  const act = (input: never): unknown => {
    const activities = proxyActivities<OwnActivities>({ ...options, taskQueue: ownTaskQueue(workflowInfo().taskQueue) })
    return (activities[activity] as (given: never) => unknown)(input)
  }
  return act as OwnActivities[A]
}

/** Why an activity has no result. */
export type LostActivity =
  /** Cancelled before it could begin. */
  | { how: 'cancelled' }
  /** No worker started it, or only one that does not know it, so no body was entered. */
  | { how: 'not_begun'; message: string }
  /** Its worker died (`confirmed`: a supervisor saw it) or stopped responding. `begun`: whether a body may have been entered. */
  | { how: 'died'; confirmed: boolean; begun: boolean; report: DeathReport | undefined; message: string; failureClass: string }
  /** The wrapper itself failed. */
  | { how: 'failed'; message: string; failureClass: string }

/** Reads the failure of an activity; rethrows any other error. */
export function whyLost(error: unknown): LostActivity {
  if (error instanceof CancelledFailure) return { how: 'cancelled' }
  if (error instanceof EndedBefore) {
    return { how: 'died', confirmed: false, begun: true, report: undefined, message: error.message, failureClass: error.name }
  }
  if (error instanceof UndecodableAnswer) return { how: 'failed', message: error.message, failureClass: error.name }
  if (!(error instanceof ActivityFailure)) throw error
  const { cause } = error
  if (cause instanceof CancelledFailure) return { how: 'cancelled' }
  if (cause instanceof TimeoutFailure) {
    const { report, begun } = readReport(cause.lastHeartbeatDetails)
    return {
      how: 'died',
      confirmed: false,
      begun,
      report: report && { ...report, cause: 'crash' },
      message: `The worker stopped sending heartbeats (${cause.timeoutType ?? 'timeout'}).`,
      failureClass: cause.timeoutType === 'HEARTBEAT' ? 'HeartbeatTimeout' : 'Timeout',
    }
  }
  if (cause instanceof ApplicationFailure && cause.type === 'WorkerDied') {
    const { report, begun } = readReport(cause.details?.[0])
    return {
      how: 'died',
      confirmed: true,
      begun,
      report: report && { cause: 'crash', ...report },
      message: cause.message,
      failureClass: 'WorkerDied',
    }
  }
  const thrown = thrownIn(cause)
  const message = cutText(thrown.message ?? cause?.message ?? error.message, TEXT_BYTES.reason)
  if (cause instanceof ApplicationFailure && cause.type === 'NotFoundError') return { how: 'not_begun', message }
  const type = cause instanceof ApplicationFailure ? cause.type : undefined
  return { how: 'failed', message, failureClass: thrown.class ?? type ?? 'Error' }
}

/** The error of an attempt, if its failure carries one. */
function thrownIn(cause: Error | undefined): Partial<ThrownDetails> {
  const given = (cause instanceof ApplicationFailure && (cause.details?.[0] as { [K in keyof ThrownDetails]?: unknown } | undefined)) || {}
  return {
    ...(typeof given.class === 'string' && { class: given.class }),
    ...(typeof given.message === 'string' && { message: given.message }),
  }
}

/** This worker's payload converter cannot decode an activity's result. Repeating the activity could repeat an effect. */
class UndecodableAnswer extends Error {
  override readonly name = 'UndecodableAnswer'
}

/** The activity's result. Synchronous, because another promise would change the order of a task's commands. @throws UndecodableAnswer. */
export function answerIn<T>(result: T): T {
  const given: unknown = result
  if (given instanceof Undecodable) throw new UndecodableAnswer(`The activity's result cannot be decoded: ${given.reason}.`)
  return result
}

/** Waits. Returns true if an interrupt ended the wait. */
export async function interruptedWhile(wait: Promise<void>): Promise<boolean> {
  try {
    await wait
    return false
  } catch (error) {
    if (whyLost(error).how === 'cancelled') return true
    throw error
  }
}
