// Rejects calls that outlive their connection to Temporal. Without this, the SDK throws from a timer and ends the process.
import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client'

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number]
type Call = ReturnType<Interceptor>

/** gRPC's status code for a call that its caller cancelled. */
const CANCELLED = 1

/** The interceptors of our connections: the SDK's own retries, whose later attempts may find the connection closed. */
export function interceptors(): Interceptor[] {
  return [makeGrpcRetryInterceptor(defaultGrpcRetryOptions()), failWhenClosed]
}

const failWhenClosed: Interceptor = (options, nextCall) => {
  try {
    return nextCall(options) as Call
  } catch (error) {
    const details = `The connection to Temporal was closed during the call: ${error instanceof Error ? error.message : String(error)}`
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
        // Like any failed unary call: no message, then the status.
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
