// Answers that the SDK's core might drop. Core has timers of its own: an attempt that did not heartbeat through the SDK itself counts as
// timed out 5 s after its heartbeat timeout. And an answer that the server refuses, because it gave the attempt up while the answer was
// under way, ends in a log line of core. Answers of long attempts, and effects of `external` bodies, go to the server past core.
import { CompleteAsyncError } from '@temporalio/activity'
import type { Client } from '@temporalio/client'
import { CancelledFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory, NativeConnection } from '@temporalio/worker'
import type { Logger } from '../../agent/tool.ts'
import { offer } from './adoption.ts'
import { effectIn, tellLateResult } from './late-results.ts'

/** What the answers are sent with. */
export interface LateAnswersOptions {
  connection: NativeConnection
  client: Client
  logger: Logger
}

/** An interceptor that sends these answers. It must be the outermost one. */
export function lateAnswers({ connection, client, logger }: LateAnswersOptions): ActivityInterceptorsFactory {
  const { activity } = client

  /** Tells the server, whatever core thinks of the attempt: its timer has aborted what the attempt sends by the worker's connection. */
  async function tell(send: () => Promise<void>, whenGivenUp: () => Promise<void> = async () => undefined): Promise<never> {
    try {
      await connection.withAbortSignal(new AbortController().signal, async () => {
        if ((await offer(send)) === 'given_up') await whenGivenUp()
      })
    } catch (err) {
      logger.warn({ err }, 'the answer of an attempt did not reach the server')
    }
    throw new CompleteAsyncError()
  }

  return ({ info: { taskToken, activityType, workflowExecution, heartbeatTimeoutMs, currentAttemptScheduledTimestampMs } }) => ({
    inbound: {
      async execute(input, next) {
        // Core's timer may run for longer than this one: a loop that stood still starts its attempts late.
        const waitedMs = Math.max(0, Date.now() - currentAttemptScheduledTimestampMs)
        const startedAt = performance.now()
        const isLate = (): boolean => performance.now() - startedAt + waitedMs > (heartbeatTimeoutMs ?? Number.POSITIVE_INFINITY)
        let result: unknown
        try {
          result = await next(input)
        } catch (error) {
          if (!isLate()) throw error
          return tell(() => (error instanceof CancelledFailure ? activity.reportCancellation(taskToken) : activity.fail(taskToken, error)))
        }
        const givenUp = { activity: activityType, workflowId: workflowExecution?.workflowId ?? '', input: input.args[0], result }
        if (!isLate() && !effectIn(givenUp)) return result
        return tell(
          () => activity.complete(taskToken, result),
          () => tellLateResult(client, givenUp, logger),
        )
      },
    },
  })
}
