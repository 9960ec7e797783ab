// Calls that outlive their connection to Temporal: they fail, where the SDK alone would throw out of a timer, which ends the process.
import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client'

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number]
type Call = ReturnType<Interceptor>

/** gRPC's status code of a call that its caller has given up. */
const CANCELLED = 1

/** What each connection of ours is made with: the SDK's own retries, whose later attempts may find the connection closed. */
export function interceptors(): Interceptor[] {
  return [makeGrpcRetryInterceptor(defaultGrpcRetryOptions()), failWhenClosed]
}

const failWhenClosed: Interceptor = (options, nextCall) => {
  try {
    return nextCall(options) as Call
  } catch (error) {
    const details = `The connection to Temporal was closed while the call was going on: ${error instanceof Error ? error.message : String(error)}`
    return failedCall(details) as Call
  }
}

/** A call that ends as soon as it is started. */
function failedCall(
  details: string,
): Pick<Call, 'start' | 'sendMessage' | 'sendMessageWithContext' | 'startRead' | 'halfClose' | 'cancelWithStatus'> {
  return {
    start(metadata, listener) {
      queueMicrotask(() => {
        // As any unary call that fails: no message, then the status.
        listener?.onReceiveMessage?.(null)
        listener?.onReceiveStatus?.({ code: CANCELLED, details, metadata })
      })
    },
    sendMessage() {},
    sendMessageWithContext() {},
    startRead() {},
    halfClose() {},
    cancelWithStatus() {},
  }
}
