// The pending steps of a session, from Temporal's description of its workflow.
import type { Client, WorkflowExecutionDescription } from '@temporalio/client'
import { decoded } from '../../connect/decoded.ts'
import type { ThrownDetails } from '../../session/attempts.ts'
import type { PendingStep } from '../../session/watching/waits.ts'
import { defined } from '../../session/defined.ts'

/** A worker usually picks up a step within milliseconds. */
const PICKED_UP_WITHIN_MS = 2_000
/** The server's state for a step that a worker has. */
const STARTED = 2
/** Summaries are model calls, too. */
const STEPS: Readonly<Record<string, PendingStep['step']>> = {
  callModel: 'model',
  compact: 'model',
  executeTool: 'tool',
  verifyTool: 'tool',
}

/** An activity that the server has pending. */
export type PendingActivity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number]

/** The pending activities. The messages of their failures are what was thrown, as far as this client can decode it. */
export function pendingActivitiesOf(client: Client, { raw }: WorkflowExecutionDescription): Promise<PendingActivity[]> {
  return Promise.all((raw.pendingActivities ?? []).map((pending) => withReason(client, pending)))
}

async function withReason({ options }: Client, pending: PendingActivity): Promise<PendingActivity> {
  const { lastFailure } = pending
  const [details] = lastFailure?.applicationFailureInfo?.details?.payloads ?? []
  const thrown = await decoded(options.loadedDataConverter, details).catch(() => undefined)
  const { message } = (thrown ?? {}) as { [K in keyof ThrownDetails]?: unknown }
  return typeof message === 'string' ? { ...pending, lastFailure: { ...lastFailure, message } } : pending
}

/** The model call and the tool calls among them. */
export function pendingStepsOf(activities: readonly PendingActivity[]): PendingStep[] {
  return activities.flatMap((pending): PendingStep[] => {
    const step = STEPS[pending.activityType?.name ?? '']
    if (!step) return []
    const isStarted = pending.state === STARTED
    const attempt = Number(pending.attempt ?? 1)
    // The server says when an attempt was scheduled, not since when the step has waited.
    const since = isStarted ? msOf(pending.lastStartedTime) : attempt === 1 ? msOf(pending.scheduledTime) : undefined
    const worker = isStarted ? pending.lastWorkerIdentity || undefined : undefined
    return [{ step, attempt, ...defined({ since, worker }), ...(!isStarted && heldUpStep(pending, since)) }]
  })
}

/** Why no worker has a step. A step that was just scheduled is not held up. */
function heldUpStep({ lastFailure, nextAttemptScheduleTime }: PendingActivity, since: number | undefined): Pick<PendingStep, 'heldUp'> {
  if (!lastFailure) return since !== undefined && Date.now() - since < PICKED_UP_WITHIN_MS ? {} : { heldUp: { for: 'worker' } }
  const isServed = lastFailure.applicationFailureInfo?.type !== 'NotServed'
  const [reason, until] = [lastFailure.message || undefined, msOf(nextAttemptScheduleTime)]
  return { heldUp: { for: isServed ? 'next_attempt' : 'worker', ...defined({ reason, until }) } }
}

/** A server's timestamp in milliseconds since 1970. */
export function msOf(time: PendingActivity['scheduledTime']): number | undefined {
  return time?.seconds == null ? undefined : Number(time.seconds) * 1_000 + Math.trunc((time.nanos ?? 0) / 1_000_000)
}
