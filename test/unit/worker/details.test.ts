// The user's codecs around what pawl sends: heartbeat details are encoded like messages, and input from clients without the codec passes.
import { defaultPayloadConverter, type Payload, type PayloadCodec, type PayloadConverter } from '@temporalio/common'
import { describe, expect, it } from 'vitest'
import type { AttemptReport } from '../../../src/session/attempts.ts'
import { detailsBy, totalCodecs } from '../../../src/worker/orchestrator/heartbeats/details.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)
const textOf = (data: Uint8Array | null | undefined): string => new TextDecoder().decode(data ?? undefined)
const payload = (encoding: string, text: string): Payload => ({ metadata: { encoding: bytes(encoding) }, data: bytes(text) })
const plain = (value: unknown): Payload => payload('json/plain', JSON.stringify(value))

/** Reverses text, as a stand-in for encryption. It refuses all payloads if it did not encode one of them, as codecs do. */
function reversing(state: { isKeyAway?: boolean } = {}): PayloadCodec {
  const reversed = (data: Uint8Array | null | undefined): string => textOf(data).split('').toReversed().join('')
  return {
    encode: async (payloads) => payloads.map(({ data }) => payload('binary/reversed', reversed(data))),
    async decode(payloads) {
      if (state.isKeyAway) throw new Error('the key service is away')
      return payloads.map(({ metadata, data }) => {
        if (textOf(metadata?.encoding) !== 'binary/reversed') throw new Error('not mine')
        return payload('json/plain', reversed(data))
      })
    },
  }
}

const decodedBy = (codec: PayloadCodec, payloads: Payload[]): Promise<unknown[]> =>
  (totalCodecs([codec])[0] as PayloadCodec)
    .decode(payloads)
    .then((decoded) => decoded.map((one) => defaultPayloadConverter.fromPayload(one)))

describe('heartbeat details', () => {
  const report: AttemptReport = { attempt: 1, begun: true, failed: [], worker: 'w', progress: { card: '4111' } }

  it('heartbeat details go through the converter and every codec, in order', async () => {
    const tagging: PayloadCodec = {
      encode: async (payloads) => payloads.map((one) => ({ ...one, metadata: { ...one.metadata, tag: bytes('outer') } })),
      decode: async (payloads) => payloads,
    }
    const converter = { payloadConverter: defaultPayloadConverter, payloadCodecs: [reversing(), tagging] }
    const [details, ...more] = await detailsBy({ ...converter, failureConverter: {} as never })(report)
    expect(more).toEqual([])
    expect(textOf(details?.data)).not.toContain('4111')
    expect(textOf(details?.metadata?.tag)).toBe('outer')
    expect(await decodedBy(reversing(), [details as Payload])).toEqual([report])
  })

  it('heartbeat details that the user’s converter cannot convert are plain JSON', async () => {
    const payloadConverter: PayloadConverter = { toPayload: () => undefined as unknown as Payload, fromPayload: () => undefined as never }
    const [details] = await detailsBy({ payloadConverter, payloadCodecs: [], failureConverter: {} as never })(report)
    expect(defaultPayloadConverter.fromPayload(details as Payload)).toEqual(report)
  })
})

describe('a codec on a worker', () => {
  it('a codec on a worker decodes what it has encoded', async () => {
    expect(await decodedBy(reversing(), await reversing().encode([plain({ a: 1 }), plain(2)]))).toEqual([{ a: 1 }, 2])
  })

  it('a codec on a worker passes on what a client without it has sent, even though the codec refuses it', async () => {
    expect(await decodedBy(reversing(), [plain('from elsewhere')])).toEqual(['from elsewhere'])
  })

  it('a codec on a worker is asked for each payload separately if only some are its own', async () => {
    const [own] = await reversing().encode([plain('own')])
    expect(await decodedBy(reversing(), [plain('foreign'), own as Payload, plain(3)])).toEqual(['foreign', 'own', 3])
  })

  it('a codec that cannot decode its own payload fails the task, which is retried: no ciphertext passes for a message', async () => {
    const sealed = await reversing().encode([plain('own')])
    await expect(decodedBy(reversing({ isKeyAway: true }), sealed)).rejects.toThrow('the key service is away')
    await expect(decodedBy(reversing({ isKeyAway: true }), [plain(1), ...sealed])).rejects.toThrow('the key service is away')
  })

  it('a codec on a worker does not guess at an unknown encoding', async () => {
    await expect(decodedBy(reversing(), [payload('binary/encrypted', 'x')])).rejects.toThrow('not mine')
    await expect(decodedBy(reversing(), [{ data: bytes('1') }])).rejects.toThrow('not mine')
  })
})
