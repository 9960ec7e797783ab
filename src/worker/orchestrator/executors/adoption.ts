// Adopts jobs that executors held when an earlier orchestrator died: continues them, and answers them by task token.
import { setTimeout as sleep } from 'node:timers/promises'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import { CancelledFailure } from '@temporalio/common'
import type { Logger } from '../../../agent/tool.ts'
import { nameOfSubject } from '../../../calls/jobs.ts'
import type { HeldJobReport } from '../../protocol.ts'
import { signalLateResult } from '../heartbeats/late-results.ts'
import { resetStickiness } from '../temporal/stickiness.ts'
import { steadyNow } from '../../steady-clock.ts'

/** How long an answer is retried while the server cannot be reached; after the heartbeat timeout, the server no longer accepts it. */
const OFFER_MS = 120_000
const RETRY_MS = 250

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
          const taken = await offer(() => client.activity.complete(ticket.taskToken, result))
          if (taken === 'given_up') await signalLateResult(client, { activity: kind, workflowId: ticket.workflowId, input, result }, logger)
        },
        async (error: unknown) => {
          await reset
          await offer(() =>
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

/**
 * Sends an answer until the server has it or has given up on the attempt. Returns which of the two happened. Rejects if the server stays
 * unreachable.
 */
export async function offer(send: () => Promise<void>): Promise<'taken' | 'given_up'> {
  for (const until = steadyNow() + OFFER_MS; ; ) {
    try {
      await send()
      return 'taken'
    } catch (error) {
      if (error instanceof ActivityNotFoundError) return 'given_up'
      if (steadyNow() + RETRY_MS >= until) throw error
      await sleep(RETRY_MS)
    }
  }
}
