// The images and documents of a request. Replaces those that the provider refuses with notes that say why.
import {
  type DocumentBlock,
  documentProblem,
  type ImageBlock,
  isMedia,
  labelOf,
  type MediaBlock,
  type TextBlock,
  type ToolResultBlock,
  type UserBlock,
} from '../session/content.ts'
import { imageFacts, isBase64 } from '../session/image.ts'
import { numberText } from '../session/number-text.ts'
import { wellFormed } from '../session/well-formed.ts'
import type { ImageLimits } from './image-limits.ts'
import type { SoundMessage, UserMessage } from './sound-types.ts'

/** An image or a document that can be sent. */
interface Sendable {
  /** The block in the transcript. */
  given: MediaBlock
  /** The image with the type that its bytes have; the document with well-formed texts. */
  sent: MediaBlock
  /** Characters of base64 or of text. */
  chars: number
  /** The longest side of an image, in pixels; 0 if unknown. */
  side: number
}

/** What is sent in place of an image or a document of the transcript. */
type Replacements = ReadonlyMap<MediaBlock, MediaBlock | TextBlock>

/** The messages, with notes in place of the images and documents that the provider would refuse. */
export function soundImages(messages: readonly SoundMessage[], limits: ImageLimits): SoundMessage[] {
  const all = messages.flatMap((message) => (message.role === 'user' ? mediaIn(message.content) : []))
  if (all.length === 0) return [...messages]
  const replaced = new Map<MediaBlock, MediaBlock | TextBlock>()
  const found: Sendable[] = []
  const isCited = all.some((block) => block.type === 'document' && block.citations?.enabled === true)
  for (const block of all) {
    const checked = block.type === 'image' ? checkImage(block, limits) : checkDocument(block, limits, isCited)
    if (typeof checked === 'string') replaced.set(block, notShown(block, checked))
    else {
      replaced.set(block, checked.sent)
      found.push(checked)
    }
  }
  for (const [{ given }, problem] of tooMany(found, limits)) replaced.set(given, notShown(given, problem))
  return messages.map((message) =>
    message.role === 'user' ? { role: 'user', content: message.content.map((block) => withReplacements(block, replaced)) } : message,
  )
}

function mediaIn(content: UserMessage['content']): MediaBlock[] {
  return content.flatMap((block) => {
    if (isMedia(block)) return [block]
    if (block.type !== 'tool_result' || typeof block.content === 'string') return []
    return block.content.filter(isMedia)
  })
}

function withReplacements(block: UserBlock | ToolResultBlock, replaced: Replacements): UserBlock | ToolResultBlock {
  if (isMedia(block)) return replaced.get(block) ?? block
  if (block.type !== 'tool_result' || typeof block.content === 'string') return block
  return { ...block, content: block.content.map((part) => (isMedia(part) ? (replaced.get(part) ?? part) : part)) }
}

function notShown(block: MediaBlock, problem: string): TextBlock {
  return { type: 'text', text: block.type === 'image' ? `[An image that is not shown: ${problem}.]` : unreadable(block, problem) }
}

/** What the model gets in place of a document. */
export function unreadable(document: DocumentBlock, problem: string): string {
  return wellFormed(`[A document that is not shown: ${problem}. It is ${labelOf(document).slice(1)}`)
}

/** The document as it can be sent, or why it cannot. */
function checkDocument(given: DocumentBlock, { maxTotalChars, httpsOnly, fileIds }: ImageLimits, isCited: boolean): Sendable | string {
  const { title, context, citations: _, source } = given
  const problem = documentProblem(source)
  if (problem) return problem.code === 'encrypted_file' ? 'it is encrypted' : problem.reason.replace(/^It/, 'it').replace(/[.:].*$/s, '')
  if (source.type === 'url' && httpsOnly && new URL(source.url).protocol !== 'https:') return 'its URL does not begin with https'
  if (source.type === 'file' && fileIds?.test(source.file_id) !== true) return 'its file id is not one of this provider'
  const chars = source.type === 'base64' || source.type === 'text' ? source.data.length : 0
  if (chars > maxTotalChars) return `it has ${numberText(chars)} bytes, and the limit is ${numberText(maxTotalChars)}`
  const sent: DocumentBlock = {
    type: 'document',
    source: source.type === 'text' ? { ...source, data: wellFormed(source.data) } : source,
    ...(title !== undefined && title.trim() !== '' && { title: wellFormed(title) }),
    ...(context !== undefined && context.trim() !== '' && { context: wellFormed(context) }),
    ...(isCited && { citations: { enabled: true } }),
  }
  return { given, sent, chars, side: 0 }
}

/** The image as it can be sent, or why it cannot. */
function checkImage(given: ImageBlock, { mediaTypes, maxChars, maxSide, httpsOnly }: ImageLimits): Sendable | string {
  const { source } = given
  if (source.type === 'url') {
    if (!URL.canParse(source.url)) return 'its URL is not valid'
    if (httpsOnly && new URL(source.url).protocol !== 'https:') return 'its URL does not begin with https'
    return { given, sent: given, chars: 0, side: 0 }
  }
  const { data, media_type: declared } = source
  if (!isBase64(data)) return 'its base64 text is not complete'
  const facts = imageFacts(data)
  if (!facts) return 'its bytes are not a JPEG, PNG, GIF or WebP image'
  const { mediaType, width = 0, height = 0 } = facts
  if (!mediaTypes.includes(mediaType)) return `the model does not accept ${mediaType}`
  if (data.length > maxChars) return `it has ${numberText(data.length)} bytes of base64, and the limit is ${numberText(maxChars)}`
  const side = Math.max(width, height)
  if (side > maxSide) return `it has ${width} × ${height} pixels, and the limit is ${numberText(maxSide)} on each side`
  const sent: ImageBlock = mediaType === declared ? given : { type: 'image', source: { type: 'base64', media_type: mediaType, data } }
  return { given, sent, chars: data.length, side }
}

/**
 * How many images are omitted at a time; bytes are omitted in portions, too. If each new image removed one old image, the beginning of the
 * request would change with every call, and no prompt cache could serve it.
 */
const GROUP = 10
const PORTION = 4 * 1024 * 1024

/** The oldest images and documents, without which the others fit the limits of a request. */
function tooMany(found: readonly Sendable[], { maxImages, maxTotalChars, many }: ImageLimits): Map<Sendable, string> {
  const out = new Map<Sendable, string>()
  const images = found.filter(({ given }) => given.type === 'image')
  const inGroups = (excess: number): number => Math.ceil(excess / GROUP) * GROUP
  if (images.length > maxImages) {
    const problem = `a request may have at most ${numberText(maxImages)} images, so only newer ones are sent`
    for (const one of images.slice(0, Math.min(images.length - 1, inGroups(images.length - maxImages)))) out.set(one, problem)
  }
  const kept = (): Sendable[] => found.filter((one) => !out.has(one))
  const keptImages = images.filter((one) => !out.has(one))
  if (many && keptImages.length > many.above) {
    const large = keptImages.filter(({ side }) => side > many.maxSide)
    const problem = `a request with more than ${many.above} images may have none with more than ${numberText(many.maxSide)} pixels on a side, so only newer or smaller ones are sent`
    for (const one of large.slice(0, Math.min(large.length, inGroups(keptImages.length - many.above)))) out.set(one, problem)
  }
  const total = kept().reduce((sum, { chars }) => sum + chars, 0)
  if (total > maxTotalChars) {
    const problem = 'the images and documents of the conversation are too large for one request, so only newer ones are sent'
    let excess = Math.ceil((total - maxTotalChars) / PORTION) * PORTION
    for (const one of kept().slice(0, -1)) {
      if (excess <= 0) break
      if (one.chars === 0) continue
      out.set(one, problem)
      excess -= one.chars
    }
  }
  return out
}
