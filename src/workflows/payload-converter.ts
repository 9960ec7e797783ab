// A payload converter that never throws: what it cannot decode becomes a marked value. Anyone can signal a workflow, and a
// converter that throws there would fail its workflow task for ever, before any code of ours could see it.
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common'
import { UNDECODABLE } from '../session/protocol.ts'

/** Wraps a converter so that decoding always gives a value. */
export function totalConverter(inner: PayloadConverter): PayloadConverter {
  return {
    toPayload: (value) => inner.toPayload(value),
    fromPayload<T>(payload: Payload): T {
      try {
        return inner.fromPayload<T>(payload)
      } catch (error) {
        return { [UNDECODABLE]: error instanceof Error ? error.message : String(error) } as T
      }
    },
  }
}

export const payloadConverter = totalConverter(defaultPayloadConverter)
