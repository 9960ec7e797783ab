// The types of Anthropic's Messages API that sessions use: blocks, messages, stop reasons, usage.
import { isBase64, imageFacts, type MediaType } from './image.ts'
import type { Json, JsonObject } from './json.ts'

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
  content: string | (TextBlock | ImageBlock)[]
  /** Whether the call failed. */
  is_error?: boolean
}

/** The content of a user's message. */
export type UserBlock = TextBlock | ImageBlock

/** The content of a model's answer. */
export type AssistantBlock = AnswerTextBlock | ThinkingBlock | RedactedThinkingBlock | ToolUseBlock | ProviderBlock

/** Whether a block is thinking, readable or not. */
export function isThinking(block: { type: string }): block is ThinkingBlock | RedactedThinkingBlock {
  return block.type === 'thinking' || block.type === 'redacted_thinking'
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
