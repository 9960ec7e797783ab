// What an image's bytes show: its type and its size in pixels. Providers refuse images that do not match their declared type.

/** A type of image that models accept. */
export type MediaType = 'image/jpeg' | 'image/png' | 'image/gif' | 'image/webp'

/** What an image's bytes show. Width and height are in pixels; absent if the header lacks them. */
export interface ImageFacts {
  mediaType: MediaType
  width?: number
  height?: number
}

const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Whether the text is complete base64, with padding and without line breaks: the only form that all providers accept. */
export function isBase64(data: string): boolean {
  return data.length % 4 === 0 && BASE64.test(data)
}

/** The type and size of the image in this base64; undefined if it is not a JPEG, PNG, GIF or WebP image. Reads only the header. */
export function imageFacts(data: string): ImageFacts | undefined {
  const read = readerOf(data)
  for (const { mediaType, begins, size } of FORMATS) {
    if (begins.every(([at, text]) => read.text(at, text.length) === text)) return { mediaType, ...size(read) }
  }
  return undefined
}

type Size = Pick<ImageFacts, 'width' | 'height'>

interface Format {
  mediaType: MediaType
  /** The texts at these positions in its bytes. */
  begins: [number, string][]
  size(read: Reader): Size
}

const FORMATS: Format[] = [
  { mediaType: 'image/png', begins: [[0, '\x89PNG\r\n\x1a\n']], size: (read) => sized(read.big(16, 4), read.big(20, 4)) },
  { mediaType: 'image/gif', begins: [[0, 'GIF8']], size: (read) => sized(read.little(6, 2), read.little(8, 2)) },
  {
    mediaType: 'image/webp',
    begins: [
      [0, 'RIFF'],
      [8, 'WEBP'],
    ],
    size: webpSize,
  },
  { mediaType: 'image/jpeg', begins: [[0, '\xff\xd8\xff']], size: jpegSize },
]

function sized(width: number, height: number): Size {
  return width > 0 && height > 0 ? { width, height } : {}
}

function webpSize(read: Reader): Size {
  switch (read.text(12, 4)) {
    case 'VP8X':
      return sized(read.little(24, 3) + 1, read.little(27, 3) + 1)
    case 'VP8L':
      return sized((read.little(21, 4) & 0x3fff) + 1, ((read.little(21, 4) >>> 14) & 0x3fff) + 1)
    case 'VP8 ':
      return sized(read.little(26, 2) & 0x3fff, read.little(28, 2) & 0x3fff)
    default:
      return {}
  }
}

/** The size comes after few segments. */
const MAX_SEGMENTS = 1_000

/** The size is in the frame header, after segments of any length (such as a preview in Exif data). */
function jpegSize(read: Reader): Size {
  let at = 2
  for (let segment = 0; segment < MAX_SEGMENTS && read.byte(at) === 0xff; segment++) {
    const marker = read.byte(at + 1)
    if (marker === 0xff) at += 1
    else if (isFrame(marker)) return sized(read.big(at + 7, 2), read.big(at + 5, 2))
    else at += 2 + read.big(at + 2, 2)
  }
  return {}
}

/** C4, C8 and CC are other markers. */
function isFrame(marker: number): boolean {
  return marker >= 0xc0 && marker <= 0xcf && marker !== 0xc4 && marker !== 0xc8 && marker !== 0xcc
}

/** Decodes single bytes, because an image may have megabytes, and its header is short. */
interface Reader {
  /** 0 beyond the end. */
  byte(at: number): number
  text(at: number, length: number): string
  big(at: number, bytes: number): number
  little(at: number, bytes: number): number
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'

/** Decodes `length` bytes of base64 from a position; zeros beyond the end. */
export function bytesAt(data: string, at: number, length: number): number[] {
  const { byte } = readerOf(data)
  return Array.from({ length }, (_, index) => byte(at + index))
}

// The workflow's sandbox has neither Buffer nor atob.
function readerOf(data: string): Reader {
  const digit = (at: number): number => Math.max(0, ALPHABET.indexOf(data.charAt(at) || 'A'))
  const byte = (at: number): number => {
    const group = Math.floor(at / 3) * 4
    const bits = (digit(group) << 18) | (digit(group + 1) << 12) | (digit(group + 2) << 6) | digit(group + 3)
    return (bits >> (16 - (at % 3) * 8)) & 0xff
  }
  const bytes = (at: number, length: number): number[] => Array.from({ length }, (_, index) => byte(at + index))
  const number = (all: number[]): number => all.reduce((sum, one) => sum * 256 + one, 0)
  return {
    byte,
    text: (at, length) => String.fromCharCode(...bytes(at, length)),
    big: (at, length) => number(bytes(at, length)),
    little: (at, length) => number(bytes(at, length).toReversed()),
  }
}
