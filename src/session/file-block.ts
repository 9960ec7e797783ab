// The block for a file, by its bytes first and its declared type second. Used where files come in: uploads, tools, the command line.
import type { DocumentBlock, ImageBlock } from './content.ts'
import { isPdf } from './document.ts'
import { imageFacts, type MediaType } from './image.ts'

/** A file. */
export interface GivenFile {
  /** Its bytes, in base64. */
  data: string
  /** Its declared type; absent: unknown. */
  mediaType?: string | undefined
  /** Its name. */
  title?: string | undefined
}

const TEXT_TYPE = /^text\/|^application\/(?:json|xml|yaml|x-yaml|toml|x-ndjson|jsonl|javascript|sql|x-sh)\b|\+(?:json|xml|yaml)$/
const IMAGE_TYPE = /^image\/(?:jpeg|png|gif|webp)$/
/** Characters of a name. The end of a longer one stays, because it has the extension. */
const MAX_TITLE = 500

/**
 * The block; undefined if the file is neither an image, a PDF nor text. What claims to be a PDF or an image is a block of that kind, so
 * that the check of messages says what is wrong with it.
 */
export function blockOfFile({ data, mediaType = '', title }: GivenFile): ImageBlock | DocumentBlock | undefined {
  const named = title === undefined || title.trim() === '' ? {} : { title: title.slice(-MAX_TITLE) }
  const image = imageFacts(data)?.mediaType ?? (IMAGE_TYPE.test(mediaType) ? (mediaType as MediaType) : undefined)
  if (image) return { type: 'image', source: { type: 'base64', media_type: image, data } }
  if (isPdf(data) || mediaType === 'application/pdf') {
    return { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data }, ...named }
  }
  const text = mediaType === '' || mediaType === 'application/octet-stream' || TEXT_TYPE.test(mediaType) ? textIn(data) : undefined
  return text === undefined ? undefined : { type: 'document', source: { type: 'text', media_type: 'text/plain', data: text }, ...named }
}

/** The text of bytes in UTF-8; undefined if they are something else. */
function textIn(data: string): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(Uint8Array.from(atob(data), (char) => char.charCodeAt(0)))
    return text.includes('\0') ? undefined : text
  } catch {
    return undefined
  }
}
