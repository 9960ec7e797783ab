// Results of MCP tools: what is recorded, and what the model sees.
import type { ResultContent } from '../../session/call-facts.ts'
import { isImageSource, labelledText, type MediaBlock, type TextBlock, type UserBlock } from '../../session/content.ts'
import { isPdf } from '../../session/document.ts'
import { imageFacts, type MediaType } from '../../session/image.ts'
import { isObject, type Json, type JsonObject } from '../../session/json.ts'
import type { McpResult } from './options.ts'

/** The recorded part of a result. */
export function resultOf({ content, structuredContent }: { content?: unknown; structuredContent?: unknown }): McpResult {
  return {
    content: (Array.isArray(content) ? content : []).filter(isObject) as JsonObject[],
    ...(structuredContent !== undefined && { structuredContent: structuredContent as Json }),
  }
}

/** What the model sees of a result: its content, or its structured content if there is no other. */
export function contentOf(result: unknown): ResultContent {
  const { content, structuredContent } = (isObject(result) ? result : {}) as Partial<McpResult>
  // `verdict` may return any JSON as the result.
  if (!Array.isArray(content)) return typeof result === 'string' ? result : JSON.stringify(result ?? null)
  const blocks = content.flatMap((part) => blockOf(part as JsonObject) ?? [])
  if (blocks.length === 0) return structuredContent === undefined ? '' : JSON.stringify(structuredContent)
  return blocks.every(({ type }) => type === 'text') ? textOf(blocks) : blocks
}

/** The text of an error result. */
export function errorTextOf({ content, structuredContent }: McpResult): string {
  const text = textOf(content.flatMap((part) => blockOf(part) ?? []))
  if (text !== '') return text
  return structuredContent === undefined ? 'The tool reports an error without a message.' : JSON.stringify(structuredContent)
}

function textOf(blocks: readonly UserBlock[]): string {
  return labelledText(blocks.filter(({ type }) => type !== 'image'))
}

function blockOf(part: JsonObject): UserBlock | undefined {
  switch (part.type) {
    case 'text':
      return typeof part.text === 'string' && part.text.trim() !== '' ? { type: 'text', text: part.text } : undefined
    case 'image':
      return imageOf(part) ?? leftOut(part)
    case 'resource_link':
      return note('Resource', [part.title ?? part.name, part.uri, part.mimeType, part.description])
    case 'resource':
      return isObject(part.resource) ? resourceOf(part.resource as JsonObject) : leftOut(part)
    default:
      return leftOut(part)
  }
}

function resourceOf(resource: JsonObject): UserBlock {
  const { uri, text, blob } = resource
  if (typeof text === 'string')
    return { type: 'text', text: `[Resource: ${typeof uri === 'string' ? uri : 'without an address'}]\n${text}` }
  return imageOf({ ...resource, data: blob ?? null }) ?? pdfOf(resource) ?? leftOut({ type: 'resource', ...resource })
}

/** The document for a PDF, named as its address ends. */
function pdfOf({ uri, blob }: JsonObject): MediaBlock | undefined {
  if (typeof blob !== 'string' || !isPdf(blob)) return undefined
  const [name = ''] = typeof uri === 'string' ? (/[^/]+$/.exec(uri) ?? []) : []
  const source = { type: 'base64' as const, media_type: 'application/pdf' as const, data: blob }
  return { type: 'document', source, ...(name !== '' && { title: name.slice(-500) }) }
}

function imageOf({ data, mimeType }: JsonObject): MediaBlock | undefined {
  if (typeof data !== 'string' || typeof mimeType !== 'string' || !mimeType.startsWith('image/')) return undefined
  // The bytes are more reliable than the declared type.
  const source = { type: 'base64' as const, media_type: imageFacts(data)?.mediaType ?? (mimeType as MediaType), data }
  return isImageSource(source) ? { type: 'image', source } : undefined
}

function leftOut({ type, mimeType, uri }: JsonObject): TextBlock {
  return note('Left out', [type, mimeType, uri, 'only text, images and PDFs can be shown here'])
}

function note(what: string, about: readonly (Json | undefined)[]): TextBlock {
  const known = about.flatMap((one) => (typeof one === 'string' && one !== '' ? one : []))
  return { type: 'text', text: `[${what}: ${known.join(', ')}]` }
}
