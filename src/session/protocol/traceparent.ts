// The header `traceparent` of W3C Trace Context, which names the span of a caller.

/** Later versions may have more parts, which pawl ignores. */
const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/
const MAX_CHARS = 200

/** The caller's span; undefined if the text names none. */
export function callerIn(traceparent: unknown): { traceId: string; spanId: string } | undefined {
  if (typeof traceparent !== 'string' || traceparent.length > MAX_CHARS) return undefined
  const [, version, traceId = '', spanId = '', rest] = TRACEPARENT.exec(traceparent) ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  return /^0+$/.test(traceId) || /^0+$/.test(spanId) ? undefined : { traceId, spanId }
}

/** Whether the text names a span. */
export function isTraceparent(traceparent: unknown): traceparent is string {
  return callerIn(traceparent) !== undefined
}
