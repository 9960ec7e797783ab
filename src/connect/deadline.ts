// A time limit for calls to Temporal. Without one, the SDK waits forever for a server that accepts a call and never answers.
import type { Client, ConnectionOptions } from '@temporalio/client'
import { isGrpcServiceError, ServiceError } from '@temporalio/client'
import { ConnectError } from './errors.ts'

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number]

/** Covers all attempts of a call. Longer than the server holds a long poll. */
const CALL_MS = 30_000

const DEADLINE_EXCEEDED = 4
const UNAVAILABLE = 14

/** Limits the calls of our connections that have no deadline of their own. */
export const boundCalls: Interceptor = (options, nextCall) => {
  const bounded = options.deadline === undefined ? { ...options, deadline: Date.now() + CALL_MS } : options
  return nextCall(bounded) as ReturnType<Interceptor>
}

/**
 * Makes calls within a time limit, over the client's connection.
 * @throws ConnectError `no_temporal` when the server does not answer; other errors unchanged.
 */
export async function onTemporal<T>(client: Client, calls: () => Promise<T>, boundMs = CALL_MS): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + boundMs, calls)
  } catch (cause) {
    throw isAway(cause) ? unanswered(client, cause) : cause
  }
}

/** Whether a call failed because the server is unavailable or too slow. */
function isAway(error: unknown): boolean {
  if (isGrpcServiceError(error)) return error.code === UNAVAILABLE || error.code === DEADLINE_EXCEEDED
  return error instanceof ServiceError && isAway(error.cause)
}

function unanswered(client: Client, cause: unknown): ConnectError {
  const { address } = (client.connection as { options?: { address?: string } }).options ?? {}
  return new ConnectError(
    'no_temporal',
    `Temporal${address === undefined ? '' : ` at ${address}`} stopped answering, so the request may or may not have arrived. Try again once the server is back; a message with the same messageId is accepted only once.`,
    { cause },
  )
}
