// Makes calls that outlive their connection to Temporal fail. The SDK alone would throw from a timer, which ends the process.
import { type ConnectionOptions, defaultGrpcRetryOptions, makeGrpcRetryInterceptor } from '@temporalio/client'

type Interceptor = NonNullable<ConnectionOptions['interceptors']>[number]
type Call = ReturnType<Interceptor>

/** gRPC's status code of a call that its caller has cancelled. */
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
