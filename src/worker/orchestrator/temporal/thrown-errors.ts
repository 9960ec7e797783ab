// Puts what activities throw where the user's converter and codecs encode it. That includes errors of libraries and of users' interceptors,
// which the SDK would send with their messages, stacks and causes in the clear.
import { CompleteAsyncError, Context } from '@temporalio/activity'
import { ApplicationFailure, TemporalFailure } from '@temporalio/common'
import type { ActivityInterceptorsFactory } from '@temporalio/worker'
import { defined } from '../../../session/defined.ts'
import { failureWith } from '../executors/failures.ts'

/** The errors themselves, for the log of this process. */
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

/** Whether the SDK acts on it. Failures of Temporal's were made for the server. */
function isMeant(error: unknown): boolean {
  if (error instanceof TemporalFailure || error instanceof CompleteAsyncError) return true
  return Context.current().cancellationSignal.aborted && error instanceof Error && error.name === 'AbortError'
}

/** The failure that is sent for an error. */
export function asFailure(error: unknown): ApplicationFailure {
  const { name, message, stack } = error instanceof Error ? error : { name: typeof error, message: String(error) }
  const failure = failureWith({ class: name, message, ...defined({ stack }) })
  thrown.set(failure, error)
  return failure
}
