// Heartbeat details by the worker's own converter and codecs: what encrypts messages encrypts progress and error texts, too.
import { defaultPayloadConverter, type LoadedDataConverter, type Payload, type PayloadCodec } from '@temporalio/common'
import type { AttemptReport } from '../../session/attempts.ts'

/** Encodes reports. */
export function detailsBy({ payloadConverter, payloadCodecs }: LoadedDataConverter): (report: AttemptReport) => Promise<Payload[]> {
  return async (report) => {
    let payloads: Payload[] = [payloadConverter.toPayload(report) ?? defaultPayloadConverter.toPayload(report)]
    for (const codec of payloadCodecs) payloads = await codec.encode(payloads)
    return payloads
  }
}

/** Encodings that a payload has before any codec. */
const PLAIN = new Set(['json/plain', 'json/protobuf', 'binary/plain', 'binary/null', 'binary/protobuf'])

/**
 * The codecs, for input of any client: a plain payload that a codec refuses to decode passes unchanged, for it was never encoded by it.
 * One that carries an encoding of the codec's own and cannot be decoded now (its key service is down) fails the task, which is retried.
 */
export function totalCodecs(codecs: readonly PayloadCodec[]): PayloadCodec[] {
  return codecs.map((codec) => ({
    encode: (payloads) => codec.encode(payloads),
    async decode(payloads) {
      try {
        return await codec.decode(payloads)
      } catch (error) {
        if (payloads.length > 1) return (await Promise.all(payloads.map((one) => this.decode([one])))).flat()
        if (payloads.every(isPlain)) return payloads
        throw error
      }
    },
  }))
}

function isPlain({ metadata }: Payload): boolean {
  const encoding = metadata?.encoding
  return encoding !== undefined && encoding !== null && PLAIN.has(Buffer.from(encoding).toString('utf8'))
}
