// Adopts jobs that executors held when an earlier orchestrator died: continues them, and answers them by task token.
import type { Client } from '@temporalio/client'
import { CancelledFailure } from '@temporalio/common'
import type { Logger } from '../../../agent/tool.ts'
import { nameOfSubject } from '../../../calls/jobs.ts'
import type { HeldJobReport } from '../../protocol.ts'
import { signalLateResult } from '../heartbeats/late-results.ts'
import { offer } from '../heartbeats/offering.ts'
import { resetStickiness } from '../temporal/stickiness.ts'

/** Returns the function that the pool calls for each adopted job. */
export function adoptionBy(
  client: Client,
  logger: Logger,
): (held: HeldJobReport, running: Promise<{ result: unknown } | undefined>) => void {
  return ({ order: { kind, input, ticket } }, running) => {
    // The dead orchestrator had cached the workflow, and the next task must not wait for it.
    const reset = resetStickiness(client, ticket, logger)
    void running
      .then(
        async (done) => {
          await reset
          if (!done) return
          const { result } = done
          const taken = await offer(client, () => client.activity.complete(ticket.taskToken, result))
          if (taken === 'given_up') await signalLateResult(client, { activity: kind, workflowId: ticket.workflowId, input, result }, logger)
        },
        async (error: unknown) => {
          await reset
          await offer(client, () =>
            error instanceof CancelledFailure
              ? client.activity.reportCancellation(ticket.taskToken)
              : client.activity.fail(ticket.taskToken, error),
          )
        },
      )
      .catch((err: unknown) =>
        logger.warn(
          { err, session: ticket.sessionId, call: nameOfSubject(ticket.subject) },
          'the result of a call could not be sent to the server',
        ),
      )
  }
}
