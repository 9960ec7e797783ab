// A payload converter that never throws: a payload that it cannot decode becomes an `Undecodable`. Any client can signal a workflow. A
// converter that throws would fail the workflow task over and over, before our code runs.
import { defaultPayloadConverter, type Payload, type PayloadConverter } from '@temporalio/common'
import { isTooDeep, MAX_DEPTH } from '../session/json.ts'
import { Undecodable } from '../session/protocol/undecodable.ts'

/** Extra levels that pawl's own payloads add around a value of depth `MAX_DEPTH`. */
const LEVELS_AROUND = 100
const MAX_ENCODING = 100

/** Wraps a converter so that decoding always returns a value. */
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

/** Does not quote the thrown error, whose text may differ between Node releases, because a replay must produce the same event. */
function whatItWas({ metadata, data }: Payload): string {
  const encoding = new TextDecoder().decode(metadata?.encoding ?? new Uint8Array()).slice(0, MAX_ENCODING)
  return `no value can be read from ${data?.length ?? 0} bytes with the encoding ${JSON.stringify(encoding)}`
}

export const payloadConverter = totalConverter(defaultPayloadConverter)
