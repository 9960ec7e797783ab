// A user's own payload converter: it writes every payload backwards, and refuses payloads that are not.
import { defaultPayloadConverter } from '@temporalio/common'

const turned = (data) => data && new Uint8Array(data).reverse()

export const payloadConverter = {
  toPayload(value) {
    const { metadata, data } = defaultPayloadConverter.toPayload(value)
    return { metadata: { ...metadata, reversed: new Uint8Array([1]) }, data: turned(data) }
  },
  fromPayload({ metadata, data }) {
    if (!metadata.reversed) throw new Error('not reversed')
    return defaultPayloadConverter.fromPayload({ metadata, data: turned(data) })
  },
}
