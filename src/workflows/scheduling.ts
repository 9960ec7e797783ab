// How the workflow schedules activities: timeouts and retry policies.
import { ActivityCancellationType, proxyActivities, type ActivityOptions, workflowInfo } from '@temporalio/workflow'
import type { OwnActivity, PawlActivities } from '../calls/activities.ts'
import { MAX_DEATHS, MAX_UNREPORTED } from '../session/attempts.ts'
import type { Resolution } from '../session/call-facts.ts'
import { ownTaskQueue } from '../session/protocol/protocol.ts'

/** How much longer than its timeout an attempt may last, because a process with a blocked event loop is killed only after a minute. */
const FREEZE_ALLOWANCE_MS = 120_000
/**
 * How long after its last heartbeat an attempt counts as lost, unless the session's settings say otherwise. A supervisor reports the death
 * of an executor at once, so this matters only for unreported deaths, such as a lost machine. It is long enough to survive a server outage
 * of a few seconds and to need few heartbeats.
 */
export const HEARTBEAT_TIMEOUT_MS = 10_000
/** Longer than any model call; missing heartbeats reveal a dead worker much earlier. */
const MODEL_CALL_MS = 3_600_000

const COMMON: ActivityOptions = { cancellationType: ActivityCancellationType.WAIT_CANCELLATION_COMPLETED }
/** This policy covers attempts that cannot report a result. The wrappers decide on all other retries themselves. */
const RETRIED = { initialInterval: 100, backoffCoefficient: 2, maximumInterval: 30_000 }

/**
 * What Temporal's UI shows for a step alongside the activity's type. pawl counts the attempts itself, because most of them are separate
 * activities. The text passes through the converter and the codecs.
 */
export function summaryOf(step: string, { attempts }: { attempts: number }): string {
  return attempts > 0 ? `${step}, attempt ${attempts + 1}` : step
}

export function modelCalls(
  how: 'first' | 'again' | 'until_served',
  heartbeatTimeout: number,
  summary: string,
): Pick<PawlActivities, 'callModel' | 'compact'> {
  return proxyActivities<Pick<PawlActivities, 'callModel' | 'compact'>>({
    ...COMMON,
    summary,
    startToCloseTimeout: MODEL_CALL_MS,
    heartbeatTimeout,
    retry: { ...RETRIED, ...(how !== 'until_served' && { maximumAttempts: 1_000 }) },
    // After `not_served`, the next activity must be able to reach another worker.
    ...(how !== 'first' && { allowEagerDispatch: false }),
  })
}

/** The call's effect decides whether Temporal may retry the activity. */
export function toolCalls(
  resolution: Resolution,
  how: 'first' | 'again' | 'until_served',
  heartbeatTimeout: number,
  summary: string,
): Pick<PawlActivities, 'executeTool'> {
  const external = resolution.effect === 'external'
  return proxyActivities<Pick<PawlActivities, 'executeTool'>>({
    ...COMMON,
    summary,
    startToCloseTimeout: resolution.timeoutMs + FREEZE_ALLOWANCE_MS,
    heartbeatTimeout,
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

/** A rule that cannot be confirmed must not hold a call up: the activity itself gives up soon. Without a worker, it waits. */
export const useContextRule = own('useContextRule', {
  startToCloseTimeout: 20_000,
  heartbeatTimeout: 5_000,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumInterval: 5_000 },
})
/** After an hour, the store takes the rule for revoked (`store/project/approval-rules.ts`). */
export const releaseWaiting = own('releaseWaiting', {
  scheduleToCloseTimeout: 3_600_000,
  heartbeatTimeout: 5_000,
  retry: { initialInterval: 250, backoffCoefficient: 2, maximumInterval: 5_000 },
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
export const askChildren = own('askChildren', UNTIL_STORED)
export const reportToCaller = own('reportToCaller', UNTIL_STORED)

type OwnActivities = Pick<PawlActivities, OwnActivity>

/** Schedules one of pawl's own activities. Their task queue is known only while a workflow runs. */
function own<A extends OwnActivity>(activity: A, options: ActivityOptions): OwnActivities[A] {
  const act = (input: never): unknown => {
    const activities = proxyActivities<OwnActivities>({ ...options, taskQueue: ownTaskQueue(workflowInfo().taskQueue) })
    return (activities[activity] as (given: never) => unknown)(input)
  }
  return act as OwnActivities[A]
}
