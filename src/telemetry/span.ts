// A span as the projection creates it: plain data, so that every exporter produces the same bytes for the same span.
import type { SpanRef } from './ids.ts'

export type AttributeValue = string | number | boolean | string[]

/** Attributes, in the order in which they are exported. */
export type Attributes = Record<string, AttributeValue>

/** A link to a span of another trace. */
export interface SpanLink extends SpanRef {
  attributes?: Attributes
}

/** Something that happened during a span. */
export interface SpanEvent {
  name: string
  /** Milliseconds since 1970. */
  at: number
  attributes: Attributes
}

/** A span that has ended. */
export interface Span extends SpanRef {
  parentSpanId?: string
  name: string
  /** `client`: a call to another system. */
  kind: 'internal' | 'client'
  /** Milliseconds since 1970. */
  startedAt: number
  endedAt: number
  attributes: Attributes
  /** Why it failed; absent if it did not. */
  error?: { type: string; message: string }
  links: SpanLink[]
  events: SpanEvent[]
}
