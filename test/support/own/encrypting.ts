// A user's own data converter, as a module: a codec that encrypts, and refuses to decode what it has not encrypted.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'
import type { DataConverter, Payload } from '@temporalio/common'

/** The same in each process of a test. */
const KEY = Buffer.alloc(32, 'pawl')
const ENCODING = 'binary/encrypted'

/** Bytes as text that JSON can carry. */
const packed = (bytes: Uint8Array | null | undefined): string => Buffer.from(bytes ?? []).toString('base64')
const unpacked = (text: string): Uint8Array => Buffer.from(text, 'base64')

function encrypted({ metadata, data }: Payload): Payload {
  const iv = randomBytes(12)
  const cipher = createCipheriv('aes-256-gcm', KEY, iv)
  const parts = { metadata: Object.entries(metadata ?? {}).map(([name, value]) => [name, packed(value)]), data: packed(data) }
  const bytes = Buffer.concat([iv, cipher.update(JSON.stringify(parts)), cipher.final(), cipher.getAuthTag()])
  return { metadata: { encoding: Buffer.from(ENCODING) }, data: bytes }
}

function decrypted({ metadata, data }: Payload): Payload {
  if (Buffer.from(metadata?.encoding ?? []).toString() !== ENCODING) throw new Error('This payload was not encrypted.')
  const bytes = Buffer.from(data ?? [])
  const decipher = createDecipheriv('aes-256-gcm', KEY, bytes.subarray(0, 12))
  decipher.setAuthTag(bytes.subarray(-16))
  const text = Buffer.concat([decipher.update(bytes.subarray(12, -16)), decipher.final()]).toString()
  const parts = JSON.parse(text) as { metadata: [string, string][]; data: string }
  return { metadata: Object.fromEntries(parts.metadata.map(([name, value]) => [name, unpacked(value)])), data: unpacked(parts.data) }
}

/** A worker loads it by its module's path; a client receives it directly. */
export const dataConverter: DataConverter = {
  payloadCodecs: [{ encode: async (payloads) => payloads.map(encrypted), decode: async (payloads) => payloads.map(decrypted) }],
}
