// Moves errors of activities to where the user's converter and codecs encode them. That includes errors of libraries and of users'
// interceptors, whose messages, stacks and causes the SDK would send in the clear.
import { CompleteAsyncError, Context } from '@temporalio/activity'
import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory } from '@temporalio/worker'
import { defined } from '../../../session/defined.ts'
import { failureWith } from '../executors/failures.ts'

/** The original errors, for the log of this process. */
const thrown = new WeakMap<ApplicationFailure, unknown>()

/** An interceptor that sends errors in the details of failures. */
export const thrownErrors: ActivityInterceptorsFactory = () => ({
  inbound: {
    async execute(input, next) {
      try {
        return await next(input)
      } catch (error) {
        throw isMeant(error) ? error : asFailure(error)
      }
    },
  },
})

/** The error that an activity threw, if it was sent as this failure. */
export function thrownAs(failure: unknown): unknown {
  return failure instanceof ApplicationFailure && thrown.has(failure) ? thrown.get(failure) : failure
}

/** Whether the SDK itself handles the error. Temporal's own failures are meant for the server. */
function isMeant(error: unknown): boolean {
  if (error instanceof TemporalFailure || error instanceof CompleteAsyncError) return true
  return Context.current().cancellationSignal.aborted && error instanceof Error && error.name === 'AbortError'
}

/** The failure to send for an error. */
export function asFailure(error: unknown): ApplicationFailure {
  const { name, message, stack } = error instanceof Error ? error : { name: typeof error, message: String(error) }
  const failure = failureWith({ class: name, message, ...defined({ stack }) })
  thrown.set(failure, error)
  return failure
}
