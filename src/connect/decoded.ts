// Decodes a payload that the server returns as it was stored, in a history or in the details of a heartbeat.
import type { LoadedDataConverter, Payload } from '@temporalio/common'

/** The value, decoded with the client's codecs and converter; undefined if there is no payload. Rejects with their errors. */
export async function decoded(
  { payloadConverter, payloadCodecs }: LoadedDataConverter,
  payload: Payload | null | undefined,
): Promise<unknown> {
  if (!payload) return undefined
  let payloads = [payload]
  for (const codec of payloadCodecs.toReversed()) payloads = await codec.decode(payloads)
  return payloads[0] && payloadConverter.fromPayload(payloads[0])
}
