// What an AI SDK tool's `toModelOutput` returns, as text and blocks for the model.
import type { Logger } from '../agent/tool.ts'
import type { ResultContent } from '../session/call-facts.ts'
import { isDocument, isImageSource, type MediaBlock, type UserBlock } from '../session/content.ts'
import { isPdf } from '../session/document.ts'
import { imageFacts, type MediaType } from '../session/image.ts'
import { isObject } from '../session/json.ts'

/** The model's content. Logs a warning for parts that the model cannot see. @throws TypeError for a value that is not an output. */
export function contentOfOutput(output: unknown, log: Logger): ResultContent {
  const { type, value, reason } = isObject(output) ? output : {}
  if (hasProviderOptions(output)) log.warn({}, 'pawl does not send the providerOptions that toModelOutput returned')
  if (type === 'text') return String(value)
  if (type === 'json') return JSON.stringify(value ?? null)
  if (type === 'error-text') return `Error: ${String(value)}`
  if (type === 'error-json') return `Error: ${JSON.stringify(value ?? null)}`
  if (type === 'execution-denied')
    return `The call was denied and was not executed.${typeof reason === 'string' ? ` Reason: ${reason}` : ''}`
  if (type === 'content' && Array.isArray(value)) return value.length === 0 ? '' : value.map((part: unknown) => blockOf(part, log))
  throw new TypeError(`toModelOutput returned an output of type ${JSON.stringify(type)}, which pawl does not know`)
}

function hasProviderOptions(output: unknown): boolean {
  const { type, value, providerOptions } = isObject(output) ? output : {}
  if (providerOptions !== undefined) return true
  // The `providerOptions` of a custom part are its content, which is left out with a note.
  return (
    type === 'content' &&
    Array.isArray(value) &&
    value.some((part) => isObject(part) && part.type !== 'custom' && part.providerOptions !== undefined)
  )
}

/** A part of content that is not text. */
interface Media {
  mediaType?: string
  filename?: string
  /** The bytes, in base64. */
  data?: string
  url?: string
  text?: string
}

function blockOf(part: unknown, log: Logger): UserBlock {
  const { type, text } = isObject(part) ? part : {}
  if (type === 'text') return { type: 'text', text: String(text) }
  const media = mediaOf(isObject(part) ? part : {})
  const shown = media && (media.text === undefined ? (imageOf(media) ?? pdfOf(media) ?? textOf(media)) : media.text)
  if (typeof shown === 'string') return { type: 'text', text: shown }
  if (shown) return shown
  const what = `${media?.mediaType ?? String(type)}${media?.filename === undefined ? '' : ` "${media.filename}"`}`
  log.warn({ part: what }, 'the model does not see a part of the content that toModelOutput returned')
  return {
    type: 'text',
    text: `[Left out: ${what}${media?.url === undefined ? '' : ` at ${media.url}`}. Only text, images and PDFs can be shown here.]`,
  }
}

/** The media in a part of either release. */
function mediaOf(part: Record<string, unknown>): Media | undefined {
  const { type, mediaType, filename, data, url } = part
  const about = { ...(typeof mediaType === 'string' && { mediaType }), ...(typeof filename === 'string' && { filename }) }
  if (type === 'file' && isObject(data)) return { ...about, ...taggedData(data) }
  if (type === 'file' || type === 'media' || type === 'file-data' || type === 'image-data') return { ...about, ...bytes(data) }
  if (type === 'image-url') return { mediaType: 'image', ...located(url) }
  if (type === 'file-url') return { ...about, ...located(url) }
  return undefined
}

/** AI SDK 7 tags the data of a file. */
function taggedData(data: Record<string, unknown>): Partial<Media> {
  if (data.type === 'text') return { text: String(data.text) }
  if (data.type === 'url') return located(data.url)
  return data.type === 'data' ? bytes(data.data) : {}
}

function bytes(data: unknown): Partial<Media> {
  if (typeof data === 'string') return { data }
  if (data instanceof ArrayBuffer) return { data: Buffer.from(data).toString('base64') }
  return data instanceof Uint8Array ? { data: Buffer.from(data).toString('base64') } : {}
}

const DATA_URL = /^data:([^;,]+);base64,(.*)$/s

function located(url: unknown): Partial<Media> {
  const [, mediaType, data] = DATA_URL.exec(String(url)) ?? []
  return mediaType !== undefined && data !== undefined ? { mediaType, data } : { url: String(url) }
}

function imageOf({ mediaType = '', data, url }: Media): MediaBlock | undefined {
  if (!/^image(\/|$)/.test(mediaType)) return undefined
  const source =
    data === undefined
      ? { type: 'url' as const, url: url ?? '' }
      : // The bytes are more reliable than the declared type, which may be `image/*`.
        { type: 'base64' as const, media_type: imageFacts(data)?.mediaType ?? (mediaType as MediaType), data }
  return isImageSource(source) ? { type: 'image', source } : undefined
}

/** The document for a PDF, or for the address of one. */
function pdfOf({ mediaType, filename, data, url }: Media): MediaBlock | undefined {
  if (mediaType !== 'application/pdf' && !(data !== undefined && isPdf(data))) return undefined
  const source = data === undefined ? { type: 'url', url } : { type: 'base64', media_type: 'application/pdf', data }
  const document = { type: 'document', source, ...(filename !== undefined && filename !== '' && { title: filename.slice(-500) }) }
  return isDocument(document) ? document : undefined
}

/** The text of a text file. */
function textOf({ mediaType = '', data }: Media): string | undefined {
  if (data === undefined || !/^(text(\/|$)|application\/json)/.test(mediaType)) return undefined
  return Buffer.from(data, 'base64').toString('utf8')
}
