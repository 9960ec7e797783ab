// Decodes a payload that the server returns as it was stored, such as the details of a heartbeat.
import type { Client } from '@temporalio/client'
import type { Payload } from '@temporalio/common'

/** The value, decoded with the client's codecs and converter. */
export async function decoded(client: Client, details: Payload): Promise<unknown> {
  const { payloadConverter, payloadCodecs } = client.options.loadedDataConverter
  let payloads = [details]
  for (const codec of payloadCodecs.toReversed()) payloads = await codec.decode(payloads)
  return payloads[0] && payloadConverter.fromPayload(payloads[0])
}
