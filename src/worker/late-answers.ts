// Answers of attempts that took long. The SDK's core keeps timers of its own: it takes an attempt that did not beat through
// the SDK itself for timed out, 5 s after the heartbeat timeout, and then drops its answer without a word. Ours are beaten for
// from outside, so the answer of a long attempt is told to the server past core.
import { CompleteAsyncError, type Context } from '@temporalio/activity'
import { ActivityNotFoundError, type Client } from '@temporalio/client'
import { CancelledFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory } from '@temporalio/worker'
import type { Logger } from '../agent/tool.ts'

type Answer = (taskToken: Uint8Array) => Promise<void>

/** An interceptor that answers for attempts that have lasted longer than their heartbeat timeout; `client` must have the worker's data converter. */
export function lateAnswers(client: Client, logger: Logger): ActivityInterceptorsFactory {
  return ({ info }: Context) => ({
    inbound: {
      async execute(input, next) {
        const startedAt = performance.now()
        // A loop that stood still may have started the attempt long after core has.
        const waitedMs = Math.max(0, Date.now() - info.currentAttemptScheduledTimestampMs)
        const isLate = (): boolean => performance.now() - startedAt + waitedMs > (info.heartbeatTimeoutMs ?? Number.POSITIVE_INFINITY)
        let result: unknown
        try {
          result = await next(input)
        } catch (error) {
          if (isLate()) await answer(error instanceof CancelledFailure ? cancelled : (token) => client.activity.fail(token, error))
          throw error
        }
        if (isLate()) await answer((token) => client.activity.complete(token, result))
        return result
      },
    },
  })

  async function cancelled(taskToken: Uint8Array): Promise<void> {
    await client.activity.reportCancellation(taskToken)
  }
}
