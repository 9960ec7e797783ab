// Waits until the session of an execution is open.
import { CancellationScope, condition, currentUpdateInfo, sleep } from '@temporalio/workflow'
import { hasCaughtUp, refuse, type Session } from '../session-parts.ts'
import type { CurrentExecution } from '../signals.ts'

/** The session, if it is open and has caught up with what earlier executions had done and accepted. */
export function ready({ session }: CurrentExecution): Session | undefined {
  return session && hasCaughtUp(session) ? session : undefined
}

/** The session, once it is open. Refuses the request if the session cannot open, or cannot open soon. */
export async function opened(execution: CurrentExecution): Promise<Session> {
  const update = currentUpdateInfo()?.id
  if (!ready(execution)) await CancellationScope.nonCancellable(() => whenOpen(execution))
  const { refused, opening, session, repeated } = execution
  if (update !== undefined && repeated.updates.includes(update))
    refuse('workflow_reset', 'This request was carried out, and an operator has reset the workflow since. Check the session.')
  const { code, reason } = refused ?? opening.trouble ?? { code: 'session_not_found', reason: 'There is no such session. Check the id.' }
  return session ?? refuse(code, reason)
}

async function whenOpen(execution: CurrentExecution): Promise<void> {
  await condition(() => ready(execution) !== undefined || execution.refused !== undefined || execution.opening.trouble !== undefined)
  // An overdue alarm fires first, because it was set before this timer.
  if (execution.session?.alarms.areSet()) await sleep(1)
}
