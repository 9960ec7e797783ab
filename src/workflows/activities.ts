// How the workflow asks for activities: timeouts, retry policies, and what the failure of one says about it.
import {
  ActivityCancellationType,
  ActivityFailure,
  ApplicationFailure,
  CancelledFailure,
  proxyActivities,
  TimeoutFailure,
  type ActivityOptions,
} from '@temporalio/workflow'
import type { AttemptReport, DeathReport, PawlActivities } from '../activities/contract.ts'
import { MAX_DEATHS, MAX_UNHEARD } from '../session/attempts.ts'
import type { Resolution } from '../session/events.ts'
import { cutText, TEXT_BYTES } from '../session/texts.ts'

/** How much longer than its timeout an attempt may last: its event loop may stand still for a minute before it is killed. */
const STANDSTILL_MS = 120_000
/** Longer than any model call; a dead worker is noticed by its beats, long before. */
const MODEL_CALL_MS = 3_600_000

const COMMON: ActivityOptions = { cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED }
/** The wrappers say themselves when to try again and when it is enough; this bounds attempts that cannot say anything. */
const RETRIED = { initialInterval: 100, backoffCoefficient: 2, maximumInterval: 30_000 }

/** Options of a `callModel` activity. */
export function modelCalls(how: 'first' | 'again' | 'until_served'): Pick<PawlActivities, 'callModel'> {
  return proxyActivities<Pick<PawlActivities, 'callModel'>>({
    ...COMMON,
    startToCloseTimeout: MODEL_CALL_MS,
    heartbeatTimeout: 5_000,
    retry: { ...RETRIED, ...(how !== 'until_served' && { maximumAttempts: 1_000 }) },
    // After "not served here" the next ask must be able to reach another worker.
    ...(how !== 'first' && { allowEagerDispatch: false }),
  })
}

/** Options of an `executeTool` activity, by the call's effect. */
export function toolCalls(resolution: Resolution, how: 'first' | 'again' | 'until_served'): Pick<PawlActivities, 'executeTool'> {
  const external = resolution.effect === 'external'
  return proxyActivities<Pick<PawlActivities, 'executeTool'>>({
    ...COMMON,
    startToCloseTimeout: resolution.timeoutMs + STANDSTILL_MS,
    heartbeatTimeout: external ? 2_000 : 5_000,
    retry:
      how === 'until_served'
        ? RETRIED
        : external
          ? { maximumAttempts: 1 }
          : { ...RETRIED, maximumAttempts: resolution.retry.maxRetries + MAX_DEATHS + MAX_UNHEARD + 1 },
    ...(how !== 'first' && { allowEagerDispatch: false }),
  })
}

/** `verify` is a read. */
export function verifications(resolution: Resolution, how: 'first' | 'again'): Pick<PawlActivities, 'verifyTool'> {
  return proxyActivities<Pick<PawlActivities, 'verifyTool'>>({
    ...COMMON,
    startToCloseTimeout: (resolution.verifyTimeoutMs ?? resolution.timeoutMs) + STANDSTILL_MS,
    heartbeatTimeout: 5_000,
    retry: { ...RETRIED, maximumAttempts: (resolution.verifyRetries ?? 3) + 1 },
    ...(how === 'again' && { allowEagerDispatch: false }),
  })
}

/** What somebody waits for who has sent an update: answered soon, or not at all. */
export const { findPlace, resolveTool, checkAnswer } = proxyActivities<Pick<PawlActivities, 'findPlace' | 'resolveTool' | 'checkAnswer'>>({
  startToCloseTimeout: 60_000,
  heartbeatTimeout: 5_000,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumAttempts: 5 },
})

/** The store's activities are retried forever: the store comes back, and until then the session does without it. */
export const { flush, loadSession, loadCalls, loadFork } = proxyActivities<
  Pick<PawlActivities, 'flush' | 'loadSession' | 'loadCalls' | 'loadFork'>
>({
  startToCloseTimeout: 60_000,
  heartbeatTimeout: 5_000,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumInterval: 5_000 },
})

/** What became of an activity that did not give a result. */
export type Lost =
  /** Cancelled before it could begin. */
  | { how: 'cancelled' }
  /** No worker took it on, or one that does not know it: no body was entered. */
  | { how: 'not_begun'; message: string }
  /** Its worker died (`confirmed`: a supervisor saw it) or is silent. */
  | { how: 'died'; confirmed: boolean; report: DeathReport | undefined; message: string; failureClass: string }
  /** The wrapper itself failed. */
  | { how: 'failed'; message: string; failureClass: string }

/** Reads the failure of an activity; throws on what is none. */
export function whyLost(error: unknown): Lost {
  if (error instanceof CancelledFailure) return { how: 'cancelled' }
  if (!(error instanceof ActivityFailure)) throw error
  const { cause } = error
  if (cause instanceof CancelledFailure) return { how: 'cancelled' }
  if (cause instanceof TimeoutFailure) {
    const report = cause.lastHeartbeatDetails as AttemptReport | undefined
    return {
      how: 'died',
      confirmed: false,
      report: report && { ...report, cause: 'crash' },
      message: `The worker was not heard of again (${cause.timeoutType ?? 'timeout'}).`,
      failureClass: cause.timeoutType === 'HEARTBEAT' ? 'HeartbeatTimeout' : 'Timeout',
    }
  }
  if (cause instanceof ApplicationFailure && cause.type === 'WorkerDied') {
    const report = cause.details?.[0] as DeathReport | undefined
    return { how: 'died', confirmed: true, report, message: cause.message, failureClass: 'WorkerDied' }
  }
  const message = cutText(cause?.message ?? error.message, TEXT_BYTES.reason)
  if (cause instanceof ApplicationFailure && cause.type === 'NotFoundError') return { how: 'not_begun', message }
  return { how: 'failed', message, failureClass: cause instanceof ApplicationFailure ? (cause.type ?? 'Error') : 'Error' }
}

/** Waits, and says whether an interrupt ended the wait. */
export async function interruptedWhile(wait: Promise<void>): Promise<boolean> {
  try {
    await wait
    return false
  } catch (error) {
    if (whyLost(error).how === 'cancelled') return true
    throw error
  }
}
