// The images of a request. Replaces those that the provider refuses with notes that say why.
import type { ImageBlock, TextBlock, ToolResultBlock, UserBlock } from '../session/content.ts'
import { imageFacts, isBase64 } from '../session/image.ts'
import { numberText } from '../session/number-text.ts'
import type { ImageLimits } from './image-limits.ts'
import type { SoundMessage, UserMessage } from './sound-types.ts'

/** An image that can be sent. */
interface SendableImage {
  /** The image in the transcript. */
  given: ImageBlock
  /** The image with the type that its bytes have. */
  sent: ImageBlock
  /** Characters of base64. */
  chars: number
  /** The longest side, in pixels; 0 if unknown. */
  side: number
}

/** What is sent in place of an image of the transcript. */
type Replacements = ReadonlyMap<ImageBlock, ImageBlock | TextBlock>

/** The messages, with notes in place of the images that exceed the limits. */
export function soundImages(messages: readonly SoundMessage[], limits: ImageLimits): SoundMessage[] {
  const all = messages.flatMap((message) => (message.role === 'user' ? imagesIn(message.content) : []))
  if (all.length === 0) return [...messages]
  const replaced = new Map<ImageBlock, ImageBlock | TextBlock>()
  const found: SendableImage[] = []
  for (const image of all) {
    const checked = checkImage(image, limits)
    if (typeof checked === 'string') replaced.set(image, notShown(checked))
    else {
      replaced.set(image, checked.sent)
      found.push(checked)
    }
  }
  for (const [{ given }, problem] of tooMany(found, limits)) replaced.set(given, notShown(problem))
  return messages.map((message) =>
    message.role === 'user' ? { role: 'user', content: message.content.map((block) => withReplacements(block, replaced)) } : message,
  )
}

function imagesIn(content: UserMessage['content']): ImageBlock[] {
  return content.flatMap((block) => {
    if (block.type === 'image') return [block]
    if (block.type !== 'tool_result' || typeof block.content === 'string') return []
    return block.content.filter((part) => part.type === 'image')
  })
}

function withReplacements(block: UserBlock | ToolResultBlock, replaced: Replacements): UserBlock | ToolResultBlock {
  if (block.type === 'image') return replaced.get(block) ?? block
  if (block.type !== 'tool_result' || typeof block.content === 'string') return block
  return { ...block, content: block.content.map((part) => (part.type === 'image' ? (replaced.get(part) ?? part) : part)) }
}

function notShown(problem: string): TextBlock {
  return { type: 'text', text: `[An image that is not shown: ${problem}.]` }
}

/** The image as it can be sent, or why it cannot. */
function checkImage(given: ImageBlock, { mediaTypes, maxChars, maxSide, httpsOnly }: ImageLimits): SendableImage | string {
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

/** The oldest images, without which the others fit the limits of a request. */
function tooMany(found: readonly SendableImage[], { maxImages, maxTotalChars, many }: ImageLimits): Map<SendableImage, string> {
  const out = new Map<SendableImage, string>()
  const inGroups = (excess: number): number => Math.ceil(excess / GROUP) * GROUP
  if (found.length > maxImages) {
    const problem = `a request may have at most ${numberText(maxImages)} images, and there are newer ones`
    for (const one of found.slice(0, Math.min(found.length - 1, inGroups(found.length - maxImages)))) out.set(one, problem)
  }
  const kept = (): SendableImage[] => found.filter((one) => !out.has(one))
  if (many && kept().length > many.above) {
    const large = kept().filter(({ side }) => side > many.maxSide)
    const problem = `a request with more than ${many.above} images may have none with more than ${numberText(many.maxSide)} pixels on a side, and there are newer ones`
    for (const one of large.slice(0, Math.min(large.length, inGroups(kept().length - many.above)))) out.set(one, problem)
  }
  const total = kept().reduce((sum, { chars }) => sum + chars, 0)
  if (total > maxTotalChars) {
    const problem = 'the images of the conversation are too large for one request, and there are newer ones'
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
