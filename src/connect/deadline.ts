// A bound for calls to Temporal: the SDK alone waits without end for a server that has accepted a call and does not answer.
import type { Client, ConnectionOptions } from '@temporalio/client'
import { isGrpcServiceError, ServiceError } from '@temporalio/client'
import { ConnectError } from './errors.ts'

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number]

/** For all tries of a call together. Longer than the server itself holds a call for which there is nothing to say yet. */
const CALL_MS = 30_000

const DEADLINE_EXCEEDED = 4
const UNAVAILABLE = 14

/** Bounds the calls of a connection of ours that have no deadline of their own. */
export const boundCalls: Interceptor = (options, nextCall) => {
  const bounded = options.deadline === undefined ? { ...options, deadline: Date.now() + CALL_MS } : options
  return nextCall(bounded) as ReturnType<Interceptor>
}

/**
 * Makes calls within a bound, over whatever connection the client has.
 * @throws ConnectError `no_temporal` when the server does not answer; all else as it is.
 */
export async function onTemporal<T>(client: Client, calls: () => Promise<T>, boundMs = CALL_MS): Promise<T> {
  try {
    return await client.withDeadline(Date.now() + boundMs, calls)
  } catch (cause) {
    throw isAway(cause) ? unanswered(client, cause) : cause
  }
}

/** Whether a call failed because the server is not there, or not in time. */
function isAway(error: unknown): boolean {
  if (isGrpcServiceError(error)) return error.code === UNAVAILABLE || error.code === DEADLINE_EXCEEDED
  return error instanceof ServiceError && isAway(error.cause)
}

function unanswered(client: Client, cause: unknown): ConnectError {
  const { address } = (client.connection as { options?: { address?: string } }).options ?? {}
  return new ConnectError(
    'no_temporal',
    `Temporal${address === undefined ? '' : ` at ${address}`} has stopped answering, so whether it received this is not known. Ask again when it is back: a message that is sent again under its messageId is accepted once.`,
    { cause },
  )
}
