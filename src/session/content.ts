// The types of Anthropic's Messages API that sessions use: blocks, messages, stop reasons, usage.
import { pdfProblem } from './document.ts'
import { isBase64, imageFacts, type MediaType } from './image.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { numberText } from './number-text.ts'
import { wellFormed } from './well-formed.ts'

/** What a provider attaches to a block of an answer; sent back only to that provider. */
export interface FromProvider {
  /** The provider that can read the thinking and the metadata: a Model's `provider`, or its name. pawl sets it. */
  provider?: string
  /** Signatures, ids and encrypted content, as the provider returned them. Only the Model that made them reads them. */
  providerMetadata?: JsonObject
}

/** Text from a user or an assistant. */
export interface TextBlock {
  /** Always `text`. */
  type: 'text'
  /** The text. */
  text: string
}

/** An image from a user or in a tool result, by URL or inline. */
export interface ImageBlock {
  /** Always `image`. */
  type: 'image'
  /** The image, inline in base64 or by URL. */
  source: { type: 'base64'; media_type: MediaType; data: string } | { type: 'url'; url: string }
}

/** What a text of an answer refers to. */
export type AnswerSource =
  /** A page on the web. */
  | { type: 'url'; url: string; title?: string }
  /** A document, by its title; `mediaType`: such as `application/pdf`. */
  | { type: 'document'; title: string; mediaType: string; filename?: string }
/** A file from a user or in a tool result: a PDF, plain text, a file at a URL, or one that was uploaded to the provider. */
export interface DocumentBlock {
  /** Always `document`. */
  type: 'document'
  /** The file: a PDF in base64, plain text, the URL of a PDF, or the id that the model's provider gave an uploaded file. */
  source:
    | { type: 'base64'; media_type: 'application/pdf'; data: string }
    | { type: 'text'; media_type: 'text/plain'; data: string }
    | { type: 'url'; url: string }
    | { type: 'file'; file_id: string }
  /** Its name, such as `report.pdf`, which the model sees; at most 500 characters. */
  title?: string
  /** What the model should know about it, alongside its contents; at most 4,000 characters. Not cited. Only Claude gets it as such. */
  context?: string
  /** Whether Claude may cite it. If one document of a request has it, pawl turns it on for all, because Claude accepts only all or none. */
  citations?: { enabled: boolean }
}

/** A block that is not text. */
export type MediaBlock = ImageBlock | DocumentBlock

/** Text of a model's answer. */
export interface AnswerTextBlock extends TextBlock, FromProvider {
  /** What the text cites, if a tool that the provider ran found it. */
  sources?: AnswerSource[]
}

/**
 * A part of an answer that belongs to a tool which the provider runs: a call, its result, or a source. Only its provider understands it, so
 * pawl records it unchanged and sends it back to that provider.
 */
export interface ProviderBlock extends FromProvider {
  /** Always `provider`. */
  type: 'provider'
  /** What it is. */
  part: 'call' | 'result' | 'source'
  /** The tool's name; of a source, its title. */
  name: string
  /** The provider's id of the call, which its result has, too; of a source, its own id. */
  id: string
  /** The arguments of a call, to show. */
  input?: Json
  /** What a result or a source refers to, to show. */
  sources?: AnswerSource[]
  /** Whether a result says that the call failed. */
  is_error?: boolean
  /** The provider's own block, as it came. In an event it is absent if the event has a `blob`, and it is absent once that is lost. */
  block?: JsonObject
}

/** The model's thinking before its answer; sent back to the model with its signature. */
export interface ThinkingBlock extends FromProvider {
  /** Always `thinking`. */
  type: 'thinking'
  /** The thinking, as text. */
  thinking: string
  /** The provider's signature for it; empty if there is none, or if the provider keeps it in `providerMetadata`. */
  signature: string
}

/** Thinking that only the provider can read; sent back unchanged. */
export interface RedactedThinkingBlock extends FromProvider {
  /** Always `redacted_thinking`. */
  type: 'redacted_thinking'
  /** The encrypted thinking. */
  data: string
}

/** The model's request to run a tool. `input` should be an object, but models do not guarantee it. */
export interface ToolUseBlock extends FromProvider {
  /** Always `tool_use`. */
  type: 'tool_use'
  /** The id that the `tool_result` refers to. */
  id: string
  /** The tool's name. */
  name: string
  /** The arguments. */
  input: Json
}

/** The answer to one `tool_use`. */
export interface ToolResultBlock {
  /** Always `tool_result`. */
  type: 'tool_result'
  /** The `id` of the `tool_use` that it answers. */
  tool_use_id: string
  /** The result. */
  content: string | UserBlock[]
  /** Whether the call failed. */
  is_error?: boolean
}

/** The content of a user's message, and of a tool's result. */
export type UserBlock = TextBlock | MediaBlock

/** The content of a model's answer. */
export type AssistantBlock = AnswerTextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ProviderBlock

/** Whether a block is thinking, readable or not. */
export function isThinking(block: { type: string }): block is ThinkingBlock | RedactedThinkingBlock {
  return block.type === 'thinking' || block.type === 'redacted_thinking'
}

/** Whether a block is an image or a document. */
export function isMedia(block: { type: string }): block is MediaBlock {
  return block.type === 'image' || block.type === 'document'
}

/** What an image or a document is called where its contents are not shown: `[image]`, `[document "report.pdf", PDF, 1,204 KB]`. */
export function labelOf(block: MediaBlock): string {
  if (block.type === 'image') return '[image]'
  return `[${['document', ...(block.title === undefined ? [] : [JSON.stringify(wellFormed(block.title))])].join(' ')}, ${formOf(block.source)}]`
}

function formOf(source: DocumentBlock['source']): string {
  switch (source.type) {
    case 'base64':
      return `PDF, ${sizeText(bytesOf(source.data))}`
    case 'text':
      return `text, ${sizeText(source.data.length)}`
    case 'url':
      return source.url
    case 'file':
      return `file ${source.file_id}`
  }
}

/** Bytes of a base64 text, without its padding. */
function bytesOf(data: string): number {
  const padding = data.endsWith('==') ? 2 : data.endsWith('=') ? 1 : 0
  return (data.length / 4) * 3 - padding
}

function sizeText(bytes: number): string {
  return bytes < 1_000 ? `${Math.floor(bytes)} bytes` : `${numberText(Math.round(bytes / 1_000))} KB`
}

/** The text of a result or a message where its images and documents are not shown: their labels are in their places. */
export function labelledText(content: string | readonly UserBlock[], separator = '\n'): string {
  if (typeof content === 'string') return content
  return content.map((block) => (block.type === 'text' ? block.text : labelOf(block))).join(separator)
}

/** Whether a block is text without a visible character. */
export function isBlank(block: ContentBlock): boolean {
  return block.type === 'text' && block.text.trim() === ''
}

/** Every content block of a transcript. */
export type ContentBlock = UserBlock | AssistantBlock | ToolResultBlock

/** One message of a transcript, as sent to the model. */
export type Message = { role: 'user'; content: string | ContentBlock[] } | { role: 'assistant'; content: AssistantBlock[] }

/** Why the model stopped. */
export type StopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_use'
  | 'pause_turn'
  | 'refusal'
  | 'model_context_window_exceeded'

/** Tokens of one model call, or summed over several. */
export interface Usage {
  /** Input tokens that no cache served. */
  input_tokens: number
  /** Output tokens, thinking included. */
  output_tokens: number
  /** Input tokens written to the cache. */
  cache_creation_input_tokens: number
  /** Input tokens read from the cache. */
  cache_read_input_tokens: number
  /** Web searches that the provider ran, which it bills one by one. Absent: none. */
  web_search_requests?: number
}

/** The sum of two usages. */
export function addUsage(a: Usage, b: Usage): Usage {
  const searches = (a.web_search_requests ?? 0) + (b.web_search_requests ?? 0)
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    cache_creation_input_tokens: a.cache_creation_input_tokens + b.cache_creation_input_tokens,
    cache_read_input_tokens: a.cache_read_input_tokens + b.cache_read_input_tokens,
    ...(searches > 0 && { web_search_requests: searches }),
  }
}

/** No tokens. */
export const NO_USAGE: Usage = {
  input_tokens: 0,
  output_tokens: 0,
  cache_creation_input_tokens: 0,
  cache_read_input_tokens: 0,
}

/** The text of a message's content: its text blocks, joined. */
export function textOf(content: string | readonly ContentBlock[]): string {
  if (typeof content === 'string') return content
  return content.flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('')
}

const MEDIA_TYPES: readonly unknown[] = ['image/jpeg', 'image/png', 'image/gif', 'image/webp'] satisfies MediaType[]
const WEB_ADDRESS = /^https?:\/\/\S+$/

/**
 * Whether a value has the form of an image source. Its bytes may still be something else; `imageProblem` reports that, and a model sees a
 * note in place of such an image.
 */
export function isImageSource(source: unknown): source is ImageBlock['source'] {
  if (source === null || typeof source !== 'object') return false
  const { type, media_type, data, url } = source as Record<string, unknown>
  if (type === 'url') return typeof url === 'string' && WEB_ADDRESS.test(url)
  return type === 'base64' && MEDIA_TYPES.includes(media_type) && typeof data === 'string' && /^[A-Za-z0-9+/]+={0,2}$/.test(data)
}

/** Why no model can see the image, if the image alone shows that. */
export function imageProblem(source: ImageBlock['source']): string | undefined {
  if (source.type === 'url') return URL.canParse(source.url) ? undefined : 'Its URL is not valid.'
  if (!isBase64(source.data)) return 'Its base64 text is not complete: encode the whole file, with padding.'
  return imageFacts(source.data) ? undefined : 'Its bytes are not a JPEG, PNG, GIF or WebP image.'
}

/** Limits of what a document says about itself, in characters. */
const MAX_TITLE = 500
const MAX_CONTEXT = 4_000
const FILE_ID = /^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,199}$/

/** Whether a value has the form of a document block, with no other members. Its bytes may still be something else (`documentProblem`). */
export function isDocument(block: unknown): block is DocumentBlock {
  if (!isObject(block) || block.type !== 'document') return false
  const { type: _, source, title, context, citations, ...others } = block
  return (
    Object.values(others).every((value) => value === undefined) &&
    isDocumentSource(source) &&
    (title === undefined || (typeof title === 'string' && title.length <= MAX_TITLE)) &&
    (context === undefined || (typeof context === 'string' && context.length <= MAX_CONTEXT)) &&
    (citations === undefined || (isObject(citations) && typeof citations.enabled === 'boolean'))
  )
}

function isDocumentSource(source: unknown): source is DocumentBlock['source'] {
  if (!isObject(source)) return false
  const { type, media_type, data, url, file_id } = source
  switch (type) {
    case 'base64':
      return media_type === 'application/pdf' && typeof data === 'string'
    case 'text':
      return media_type === 'text/plain' && typeof data === 'string'
    case 'url':
      return typeof url === 'string' && WEB_ADDRESS.test(url)
    case 'file':
      return typeof file_id === 'string' && FILE_ID.test(file_id)
    default:
      return false
  }
}

/** Why no model can read a document. The codes are those with which messages are refused. */
export interface DocumentProblem {
  code: 'invalid_file' | 'encrypted_file'
  reason: string
}

const PDF_PROBLEMS = {
  base64: { code: 'invalid_file', reason: 'Its base64 text is not complete: encode the whole file, with padding.' },
  invalid: { code: 'invalid_file', reason: 'Its bytes are not a PDF. Send text as a document of text, and convert other files.' },
  encrypted: { code: 'encrypted_file', reason: 'The PDF is encrypted, and no model can read it: remove its password and its protection.' },
} as const satisfies Record<string, DocumentProblem>

/** Why no model can read the document, if the document alone shows that. */
export function documentProblem(source: DocumentBlock['source']): DocumentProblem | undefined {
  switch (source.type) {
    case 'base64': {
      const problem = pdfProblem(source.data)
      return problem && PDF_PROBLEMS[problem]
    }
    case 'text':
      return source.data.trim() === '' ? { code: 'invalid_file', reason: 'It has no text.' } : undefined
    case 'url':
      return URL.canParse(source.url) ? undefined : { code: 'invalid_file', reason: 'Its URL is not valid.' }
    case 'file':
      return undefined
  }
}
