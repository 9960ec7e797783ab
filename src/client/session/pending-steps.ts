// The pending steps of a session, from Temporal's description of its workflow.
import type { WorkflowExecutionDescription } from '@temporalio/client'
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

/** The model call and the tool calls that the server has pending. */
export function pendingStepsOf({ raw }: WorkflowExecutionDescription): PendingStep[] {
  return (raw.pendingActivities ?? []).flatMap((pending): PendingStep[] => {
    const step = STEPS[pending.activityType?.name ?? '']
    if (!step) return []
    const isStarted = pending.state === STARTED
    const since = msOf(isStarted ? pending.lastStartedTime : pending.scheduledTime)
    const worker = isStarted ? pending.lastWorkerIdentity || undefined : undefined
    return [{ step, attempt: Number(pending.attempt ?? 1), ...defined({ since, worker }), ...(!isStarted && heldUpStep(pending, since)) }]
  })
}

type PendingActivity = NonNullable<WorkflowExecutionDescription['raw']['pendingActivities']>[number]

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
