// A payload converter that never throws: what it cannot decode becomes a marked value. Anyone can signal a workflow, and a
// converter that throws there would fail its workflow task for ever, before any code of ours could see it.
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common'
import { isTooDeep, MAX_DEPTH } from '../session/json.ts'
import { UNDECODABLE } from '../session/incoming.ts'

/** Wraps a converter so that decoding always gives a value. */
export function totalConverter(inner: PayloadConverter): PayloadConverter {
  return {
    toPayload: (value) => inner.toPayload(value),
    fromPayload<T>(payload: Payload): T {
      try {
        const value = inner.fromPayload<T>(payload)
        if (isTooDeep(value)) throw new RangeError(`it is nested deeper than ${MAX_DEPTH} levels`)
        return value
      } catch (error) {
        return { [UNDECODABLE]: error instanceof Error ? error.message : String(error) } as T
      }
    },
  }
}

export const payloadConverter = totalConverter(defaultPayloadConverter)
