// Sends answers that the SDK's core might drop. Core has its own timers: an attempt without heartbeats through the SDK counts as timed out
// 5 s after its heartbeat timeout. If the server refuses an answer because it has given up on the attempt, core only logs that. Answers of
// long attempts and effects of `external` bodies therefore bypass core.
import { CompleteAsyncError } from '@temporalio/activity'
import type { Client } from '@temporalio/client'
import { CancelledFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory, NativeConnection } from '@temporalio/worker'
import type { Logger } from '../../../agent/tool.ts'
import { sessionIdOf } from '../../../session/protocol/protocol.ts'
import { effectIn, signalLateResult } from './late-results.ts'
import { offer } from './offering.ts'

export interface LateAnswersOptions {
  connection: NativeConnection
  client: Client
  logger: Logger
}

/** An interceptor that sends these answers. It must be outermost. */
export function lateAnswers({ connection, client, logger }: LateAnswersOptions): ActivityInterceptorsFactory {
  const { activity } = client

  /** Sends the answer even if core's timer has aborted the attempt's RPCs on the worker's connection. */
  async function sendLate(
    about: object,
    send: () => Promise<void>,
    whenGivenUp: () => Promise<void> = async () => undefined,
  ): Promise<never> {
    try {
      await connection.withAbortSignal(new AbortController().signal, async () => {
        if ((await offer(client, send)) === 'given_up') await whenGivenUp()
      })
    } catch (err) {
      logger.warn({ ...about, err }, 'the result of an attempt did not reach the server')
    }
    throw new CompleteAsyncError()
  }

  return ({ info: { taskToken, activityType, workflowExecution, heartbeatTimeoutMs, currentAttemptScheduledTimestampMs } }) => ({
    inbound: {
      async execute(input, next) {
        // Core's timer may have started earlier: a blocked loop starts its attempts late.
        const waitedMs = Math.max(0, Date.now() - currentAttemptScheduledTimestampMs)
        const startedAt = performance.now()
        const isLate = (): boolean => performance.now() - startedAt + waitedMs > (heartbeatTimeoutMs ?? Number.POSITIVE_INFINITY)
        const { workflowId = '' } = workflowExecution ?? {}
        const about = { session: sessionIdOf(workflowId), activity: activityType }
        let result: unknown
        try {
          result = await next(input)
        } catch (error) {
          if (!isLate()) throw error
          return sendLate(about, () =>
            error instanceof CancelledFailure ? activity.reportCancellation(taskToken) : activity.fail(taskToken, error),
          )
        }
        const late = { activity: activityType, workflowId, input: input.args[0], result }
        if (!isLate() && !effectIn(late)) return result
        return sendLate(
          about,
          () => activity.complete(taskToken, result),
          () => signalLateResult(client, late, logger),
        )
      },
    },
  })
}
