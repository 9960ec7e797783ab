// A payload converter that never throws: what it cannot decode becomes an `Undecodable`. Anyone can signal a workflow, and a
// converter that throws there would fail its workflow task forever, before any code of ours could see it.
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common'
import { isTooDeep, MAX_DEPTH } from '../session/json.ts'
import { Undecodable } from '../session/undecodable.ts'

/** How many levels pawl's own payloads put around a value that may have `MAX_DEPTH` itself. */
const LEVELS_AROUND = 100
const MAX_ENCODING = 100

/** Wraps a converter so that decoding always gives a value. */
export function totalConverter(inner: PayloadConverter): PayloadConverter {
  return {
    toPayload: (value) => inner.toPayload(value),
    fromPayload<T>(payload: Payload): T {
      try {
        const value = inner.fromPayload<T>(payload)
        return isTooDeep(value, MAX_DEPTH + LEVELS_AROUND) ? (new Undecodable(`it is nested deeper than ${MAX_DEPTH} levels`) as T) : value
      } catch {
        return new Undecodable(whatItWas(payload)) as T
      }
    },
  }
}

/** Not what was thrown: another release of Node may put that in other words, and a replay must give the same event. */
function whatItWas({ metadata, data }: Payload): string {
  const encoding = new TextDecoder().decode(metadata?.encoding ?? new Uint8Array()).slice(0, MAX_ENCODING)
  return `no value can be read from ${data?.length ?? 0} bytes with the encoding ${JSON.stringify(encoding)}`
}

export const payloadConverter = totalConverter(defaultPayloadConverter)
