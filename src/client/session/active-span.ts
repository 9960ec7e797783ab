// The active span of the process that sends a message.

/** The global property in which every copy and version of OpenTelemetry's API keeps what an application has registered. */
const REGISTERED = Symbol.for('opentelemetry.js.api.1')
const INVALID = /^0+$/

/** The active span's `traceparent`; undefined without an active span. Loads OpenTelemetry's API only if the application has set it up. */
export async function activeTraceparent(): Promise<string | undefined> {
  if (!(REGISTERED in globalThis)) return undefined
  const { context, trace } = await import('@opentelemetry/api')
  const { traceId, spanId, traceFlags } = trace.getSpanContext(context.active()) ?? {}
  if (traceId === undefined || spanId === undefined || INVALID.test(traceId) || INVALID.test(spanId)) return undefined
  return `00-${traceId}-${spanId}-${(traceFlags ?? 0).toString(16).padStart(2, '0')}`
}
