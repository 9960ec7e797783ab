// The header `traceparent` of W3C Trace Context, which names the span of a caller.
import type { SpanRef } from './ids.ts'

/** A caller's span. */
export interface RemoteSpan extends SpanRef {
  /** Whether the caller records its trace. */
  isSampled: boolean
}

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Reads a `traceparent`; undefined if it is none: then a message has no link, and nothing else changes. */
export function remoteSpanIn(traceparent: unknown): RemoteSpan | undefined {
  if (typeof traceparent !== 'string') return undefined
  const [, version, traceId = '', spanId = '', flags = '', rest] = TRACEPARENT.exec(traceparent) ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return undefined
  if (/^0+$/.test(traceId) || /^0+$/.test(spanId)) return undefined
  return { traceId, spanId, isSampled: (Number.parseInt(flags, 16) & 1) === 1 }
}

/** The `traceparent` of a span. */
export function traceparentOf({ traceId, spanId }: SpanRef, isSampled: boolean): string {
  return `00-${traceId}-${spanId}-${isSampled ? '01' : '00'}`
}
