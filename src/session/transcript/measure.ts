// Measures a request: the bytes of its text, and an estimate of its tokens if no model has counted them.
import type { ContentBlock, ImageBlock, Message, TextBlock } from '../content.ts'

/** Few texts have fewer bytes per token, so estimates tend to be too high. */
export const BYTES_PER_TOKEN = 3
/** The most that providers count for one image, whatever its bytes. */
const IMAGE_BYTES = 1_600 * BYTES_PER_TOKEN

/** Bytes of a text in UTF-8. */
export function bytesOfText(text: string): number {
  return new TextEncoder().encode(text).length
}

/** Bytes of the text in messages; an image counts as much as its tokens. */
export function bytesOfMessages(messages: readonly Message[]): number {
  return messages.reduce((sum, { content }) => sum + bytesOfContent(content), 0)
}

/** Bytes of the text in one message's content; an image counts as much as its tokens. */
export function bytesOfContent(content: Message['content']): number {
  return typeof content === 'string' ? bytesOfText(content) : content.reduce((sum, block) => sum + bytesOfBlock(block), 0)
}

function bytesOfBlock(block: ContentBlock): number {
  switch (block.type) {
    case 'text':
    case 'image':
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

function bytesOfPart(part: TextBlock | ImageBlock): number {
  return part.type === 'text' ? bytesOfText(part.text) : IMAGE_BYTES
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
