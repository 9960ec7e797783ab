// Encodes heartbeat details with the worker's converter and codecs, so that progress and error texts are encrypted like messages.
import { defaultPayloadConverter, type LoadedDataConverter, type Payload, type PayloadCodec } from '@temporalio/common'
import type { AttemptReport } from '../../../session/attempts.ts'

export function detailsBy({ payloadConverter, payloadCodecs }: LoadedDataConverter): (report: AttemptReport) => Promise<Payload[]> {
  return async (report) => {
    let payloads: Payload[] = [payloadConverter.toPayload(report) ?? defaultPayloadConverter.toPayload(report)]
    for (const codec of payloadCodecs) payloads = await codec.encode(payloads)
    return payloads
  }
}

/** Payload encodings before any codec. */
const PLAIN = new Set(['json/plain', 'json/protobuf', 'binary/plain', 'binary/null', 'binary/protobuf'])

/**
 * Adapts the codecs to input from any client. A plain payload that a codec refuses to decode passes unchanged, because the codec never
 * encoded it. If a payload with the codec's own encoding cannot be decoded now (for example, because its key service is down), the task
 * fails and is retried.
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
