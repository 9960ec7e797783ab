// Measures a request: the bytes of its text, and an estimate of its tokens if no model has counted them.
import type { ContentBlock, DocumentBlock, Message, UserBlock } from '../content.ts'

/** Few texts have fewer bytes per token, so estimates tend to be too high. */
export const BYTES_PER_TOKEN = 3
/** The most that providers count for one image, whatever its bytes. */
const IMAGE_BYTES = 1_600 * BYTES_PER_TOKEN

/** Tokens of one page of a PDF, which providers count as text and as an image. */
const PAGE_TOKENS = 2_500
/** Base64 characters of one page. Scans have more, text has less; the most pages that are assumed, and those of a file that pawl lacks. */
const PAGE = { characters: 150_000, max: 100, unknown: 20 } as const

/** Estimated tokens of a document. Only its provider can count them, and pawl uses that count once there is one. */
export function documentTokens({ source }: DocumentBlock): number {
  if (source.type === 'text') return Math.ceil(bytesOfText(source.data) / BYTES_PER_TOKEN)
  const pages = source.type === 'base64' ? Math.min(PAGE.max, Math.ceil(source.data.length / PAGE.characters)) : PAGE.unknown
  return pages * PAGE_TOKENS
}

/** Bytes of a text in UTF-8. */
export function bytesOfText(text: string): number {
  return new TextEncoder().encode(text).length
}

/** Bytes of the text in messages; an image or a document counts as much as its tokens. */
export function bytesOfMessages(messages: readonly Message[]): number {
  return messages.reduce((sum, { content }) => sum + bytesOfContent(content), 0)
}

/** Bytes of the text in one message's content; an image or a document counts as much as its tokens. */
export function bytesOfContent(content: Message['content']): number {
  return typeof content === 'string' ? bytesOfText(content) : content.reduce((sum, block) => sum + bytesOfBlock(block), 0)
}

function bytesOfBlock(block: ContentBlock): number {
  switch (block.type) {
    case 'text':
    case 'image':
    case 'document':
      return bytesOfPart(block)
    case 'thinking':
      return bytesOfText(`${block.thinking}${block.signature}`)
    case 'redacted_thinking':
      return block.data.length
    case 'provider':
      return block.block ? bytesOfText(JSON.stringify(block.block)) : 0
    case 'tool_use':
      return bytesOfText(block.name) + bytesOfText(JSON.stringify(block.input))
    case 'tool_result':
      if (typeof block.content === 'string') return bytesOfText(block.content)
      return block.content.reduce((sum, part) => sum + bytesOfPart(part), 0)
  }
}

function bytesOfPart(part: UserBlock): number {
  if (part.type === 'text') return bytesOfText(part.text)
  return part.type === 'image' ? IMAGE_BYTES : documentTokens(part) * BYTES_PER_TOKEN
}

/** The text without its middle, in at most `maxBytes` bytes, because its beginning and end matter most. */
export function cutMiddle(text: string, maxBytes: number): string {
  // Every character has at most three bytes for each of its code units.
  if (text.length * 3 <= maxBytes) return text
  const encoded = new TextEncoder().encode(text)
  if (encoded.length <= maxBytes) return text
  const note = `\n[… ${encoded.length - maxBytes} bytes left out …]\n`
  const room = Math.max(0, maxBytes - bytesOfText(note))
  const begin = decode(encoded.subarray(0, Math.ceil(room * 0.7)))
  return begin + note + decode(encoded.subarray(encoded.length - Math.floor(room * 0.3)))
}

/** The text in the bytes, without a character that was cut in two. */
function decode(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes).replace(/^\uFFFD+|\uFFFD+$/g, '')
}
