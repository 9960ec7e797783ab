// Images of every type, with any size in pixels and in bytes: their headers are real, and the rest is filler.
import type { ImageBlock } from '../../src/session/content.ts'
import type { MediaType } from '../../src/session/image.ts'

const HEADERS: Record<MediaType, (width: number, height: number) => Buffer> = {
  'image/png': (width, height) => bytes('89504e470d0a1a0a0000000d49484452', big(width, 4), big(height, 4), '08060000001f15c489'),
  'image/gif': (width, height) => bytes(Buffer.from('GIF89a'), little(width, 2), little(height, 2), 'f70000'),
  // Metadata comes before the frame.
  'image/jpeg': (width, height) =>
    bytes('ffd8', 'ffe1', big(2 + 40, 2), Buffer.alloc(40, 0xff), 'ffc0001108', big(height, 2), big(width, 2)),
  'image/webp': (width, height) =>
    bytes(Buffer.from('RIFF'), '24000000', Buffer.from('WEBPVP8X'), '0a00000000000000', little(width - 1, 3), little(height - 1, 3)),
}

/** The bytes of an image: at least its header. */
export function imageBytes(type: MediaType, { width = 8, height = 8, size = 0 } = {}): Buffer {
  const header = HEADERS[type](width, height)
  return Buffer.concat([header, Buffer.alloc(Math.max(0, size - header.length))])
}

/** An image block whose bytes are of this type. */
export function imageBlock(type: MediaType = 'image/png', how: { width?: number; height?: number; size?: number } = {}): ImageBlock {
  return { type: 'image', source: { type: 'base64', media_type: type, data: imageBytes(type, how).toString('base64') } }
}

function bytes(...parts: (string | Buffer)[]): Buffer {
  return Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'hex') : part)))
}

function big(value: number, length: number): Buffer {
  const out = Buffer.alloc(length)
  out.writeUIntBE(value, 0, length)
  return out
}

function little(value: number, length: number): Buffer {
  return big(value, length).reverse()
}
