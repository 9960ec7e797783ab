// Converts the messages of a request to a prompt of the AI SDK: the same transcript always yields the same prompt.
import type { ModelRequest } from '../agent/model.ts'
import {
  type AssistantBlock,
  type DocumentBlock,
  type ImageBlock,
  isMedia,
  isThinking,
  labelledText,
  type Message,
  type ProviderBlock,
  type RedactedThinkingBlock,
  type ThinkingBlock,
  type ToolResultBlock,
  type UserBlock,
} from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { isObject, type Json, type JsonObject } from '../session/json.ts'
import { isProviderBlock, noteOnProviderBlock } from '../session/provider-blocks.ts'
import { wellFormed } from '../session/well-formed.ts'
import { systemNote } from '../session/transcript/system-note.ts'
import type { LanguageModel, SupportedUrls } from './ai-sdk-types.ts'
import type { ImageLimits } from './image-limits.ts'
import { unreadable } from './sound-images.ts'
import { soundJson, soundMessages } from './sound-messages.ts'
import type { SoundAnswerBlock, SoundMessage } from './sound-types.ts'

/** The properties of a model that determine the form of its prompt. */
export interface Dialect {
  version: LanguageModel['specificationVersion']
  urls: SupportedUrls
  images: ImageLimits
  /** The provider's name in the AI SDK, such as `openai.responses`. */
  provider: string
  /** Whether the provider continues an answer of its own that ends the prompt. */
  continuesAnswers: boolean
  /** Whether the provider's package sends a block of a tool that the provider ran back in a form that the provider accepts. */
  sendsBack(block: ProviderBlock): boolean
}

const PDF = 'application/pdf'

type Part = { type: string; providerOptions?: JsonObject } & Record<string, unknown>
type PromptMessage = { role: 'system'; content: string } | { role: 'user' | 'assistant' | 'tool'; content: Part[] }

/** The prompt of a request. */
export function promptOf({ system, messages }: Pick<ModelRequest, 'system' | 'messages'>, dialect: Dialect): PromptMessage[] {
  const sound = soundMessages(messages, {
    images: dialect.images,
    keepsThinking,
    keepsProviderBlock: (block) => keepsProviderBlock(block) && dialect.sendsBack(block),
    continuesAnswers: dialect.continuesAnswers,
  })
  const names = toolNames(sound)
  const prompt: PromptMessage[] = system.trim() === '' ? [] : [{ role: 'system', content: wellFormed(system) }]
  for (const message of sound) {
    if (message.role === 'assistant') {
      prompt.push({ role: 'assistant', content: message.content.flatMap(answerPart) })
      continue
    }
    const results = message.content.filter((block) => block.type === 'tool_result')
    const others = message.content.filter((block) => block.type !== 'tool_result')
    const apart = takesResultsAsText(dialect) ? mediaOf(results) : []
    const sent = apart.length > 0 ? results.map(withLabels) : results
    if (sent.length > 0) prompt.push({ role: 'tool', content: sent.map((block) => resultPart(block, names, dialect)) })
    const said = [...apart, ...others]
    if (said.length > 0) prompt.push({ role: 'user', content: said.map((block) => userPart(block, dialect)) })
  }
  return prompt
}

/**
 * Whether the provider's package sends the results of calls as text: those for Chat Completions do, and would send the base64 of an image or
 * a PDF as text, too. Google's have the same ending.
 */
function takesResultsAsText({ provider }: Dialect): boolean {
  return provider.endsWith('.chat') && !/google|vertex/.test(provider)
}

/** The images and documents of results, with a note before them: they follow the results as parts of the user's message. */
function mediaOf(results: readonly ToolResultBlock[]): UserBlock[] {
  const media = results.flatMap(({ content }) => (typeof content === 'string' ? [] : content.filter(isMedia)))
  const note = systemNote('The images and documents that the results above name follow here.')
  return media.length > 0 ? [{ type: 'text', text: note }, ...media] : []
}

function withLabels(result: ToolResultBlock): ToolResultBlock {
  return { ...result, content: labelledText(result.content) }
}

/** The tools of a request. */
export function toolsOf({ tools, providerTools = [] }: Pick<ModelRequest, 'tools' | 'providerTools'>): object[] {
  const ofProvider = providerTools.map(({ name, definition: { id, args } }) => ({ type: 'provider', id, name, args }))
  const own = tools.map(({ name, description, input_schema }) => ({
    type: 'function',
    name,
    description: wellFormed(description),
    inputSchema: soundJson(input_schema),
  }))
  return [...own, ...ofProvider]
}

/** Redacted thinking has its data in `data` only in Anthropic's own API. */
function keepsThinking({ type }: ThinkingBlock | RedactedThinkingBlock): boolean {
  return type === 'thinking'
}

/** Sources are shown to people; no provider's package accepts them in a prompt. */
function keepsProviderBlock({ part, block }: ProviderBlock): boolean {
  return part !== 'source' && typeof block?.toolCallId === 'string'
}

/** The messages without the data that only their provider can read. */
export function withoutProviderData(messages: readonly Message[]): Message[] {
  return messages.map((message) => {
    if (message.role === 'user') return message
    const content = message.content.flatMap((block): AssistantBlock[] => {
      if (isThinking(block)) return []
      if (isProviderBlock(block)) return noteOnProviderBlock(block)
      const { provider: _, providerMetadata: __, ...rest } = block
      return [rest]
    })
    return { ...message, content }
  })
}

/** Whether any message has data that only its provider can read. */
export function hasProviderData(messages: readonly Message[]): boolean {
  return messages.some(
    ({ role, content }) =>
      role === 'assistant' &&
      content.some((block) => isThinking(block) || isProviderBlock(block) || ('providerMetadata' in block && block.providerMetadata)),
  )
}

/** Tool names by call id, because results in the AI SDK name their tool, while those in the transcript do not. */
function toolNames(messages: readonly SoundMessage[]): Map<string, string> {
  const calls = messages.flatMap(({ content }) => content.filter((block) => block.type === 'tool_use'))
  return new Map(calls.map(({ id, name }) => [id, name]))
}

/** As the AI SDK itself sends them back. */
function providerParts({ part, is_error: isError, block }: ProviderBlock): Part[] {
  const { toolCallId, toolName, input = {}, result = null, providerMetadata } = block ?? {}
  const about = { toolCallId, toolName, ...(isObject(providerMetadata) && { providerOptions: providerMetadata as JsonObject }) }
  if (part === 'call') return [{ type: 'tool-call', ...about, input, providerExecuted: true }]
  const output =
    typeof result === 'string'
      ? { type: isError ? 'error-text' : 'text', value: result }
      : { type: isError ? 'error-json' : 'json', value: result }
  return [{ type: 'tool-result', ...about, output }]
}

function answerPart(block: SoundAnswerBlock): Part[] {
  const options = block.providerMetadata && { providerOptions: block.providerMetadata }
  switch (block.type) {
    case 'text':
      return [{ type: 'text', text: block.text, ...options }]
    case 'thinking':
      return [{ type: 'reasoning', text: block.thinking, ...options }]
    case 'redacted_thinking':
      return []
    case 'provider':
      return providerParts(block)
    case 'tool_use':
      return [{ type: 'tool-call', toolCallId: block.id, toolName: block.name, input: block.input, ...options }]
  }
}

function userPart(block: UserBlock, dialect: Dialect): Part {
  if (block.type === 'text') return { type: 'text', text: block.text }
  return block.type === 'image' ? imagePart(block, dialect) : documentPart(block, dialect)
}

function resultPart({ tool_use_id, content, is_error }: ToolResultBlock, names: Map<string, string>, dialect: Dialect): Part {
  return {
    type: 'tool-result',
    toolCallId: tool_use_id,
    toolName: names.get(tool_use_id) ?? 'unknown',
    output: outputOf(content, is_error === true, dialect),
  }
}

function outputOf(content: ToolResultBlock['content'], isError: boolean, dialect: Dialect): { type: string; value: Json | Part[] } {
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content
  // Errors contain text only.
  if (parts.every((part) => part.type === 'text')) {
    return { type: isError ? 'error-text' : 'text', value: parts.map(({ text }) => text).join('\n') }
  }
  return {
    type: 'content',
    value: parts.map((part) => resultPartOf(part, dialect)),
  }
}

function resultPartOf(part: UserBlock, dialect: Dialect): Part {
  if (part.type === 'text') return { type: 'text', text: part.text }
  return part.type === 'image' ? resultImage(part, dialect) : resultDocument(part, dialect)
}

/** Not every provider accepts text as a file, and every one accepts text. */
function textPart({ title, context }: DocumentBlock, data: string): Part {
  const about = [...(title === undefined ? [] : [JSON.stringify(title)]), ...(context === undefined ? [] : [`(${context})`])]
  return { type: 'text', text: `[${['Document', ...about].join(' ')}]\n${data}` }
}

function documentPart(document: DocumentBlock, dialect: Dialect): Part {
  const { source } = document
  const { version, provider } = dialect
  if (source.type === 'text') return textPart(document, source.data)
  const about = { filename: fileName(document), ...claudesOptions(document, dialect) }
  const part = (data: unknown): Part => ({ type: 'file', mediaType: PDF, data, ...about })
  if (source.type === 'base64') return part(version === 'v3' ? source.data : { type: 'data', data: source.data })
  if (source.type === 'url') {
    if (!isReadable(source.url, dialect.urls, PDF)) return { type: 'text', text: unreadable(document, 'this model cannot load it') }
    const url = new URL(source.url)
    return part(version === 'v3' ? url : { type: 'url', url })
  }
  if (version === 'v4') return part({ type: 'reference', reference: referenceTo(source.file_id, provider) })
  if (/anthropic/.test(provider)) return { type: 'text', text: unreadable(document, 'AI SDK 6 cannot send file ids to this provider') }
  // Google's ids are URLs.
  return part(URL.canParse(source.file_id) ? new URL(source.file_id) : source.file_id)
}

function resultDocument(document: DocumentBlock, dialect: Dialect): Part {
  const { source } = document
  if (dialect.version === 'v4' || source.type === 'text') return documentPart(document, dialect)
  if (source.type === 'base64') return { type: 'file-data', mediaType: PDF, data: source.data, filename: fileName(document) }
  if (source.type === 'file') return { type: 'file-id', fileId: source.file_id }
  if (!isReadable(source.url, dialect.urls, PDF)) return { type: 'text', text: unreadable(document, 'this model cannot load it') }
  return { type: 'file-url', url: source.url }
}

/** What only Claude's API knows of a document, through its provider package. */
function claudesOptions({ title, context, citations }: DocumentBlock, { provider }: Dialect): { providerOptions?: JsonObject } {
  if (!/anthropic/.test(provider)) return {}
  const options = { ...defined({ title, context }), ...(citations?.enabled && { citations: { enabled: true } }) }
  return Object.keys(options).length === 0 ? {} : { providerOptions: { anthropic: options } }
}

/** Providers want a name with the ending of its type. */
function fileName({ title = 'document' }: DocumentBlock): string {
  return /\.pdf$/i.test(title) ? title : `${title}.pdf`
}

/** A package looks its id up by a part of the provider's name, such as `azure` for `azure-openai.responses`. */
function referenceTo(id: string, provider: string): Record<string, string> {
  return Object.fromEntries(provider.split(/[.-]/).map((part) => [part, id]))
}

function imagePart({ source }: ImageBlock, { version, urls }: Dialect): Part {
  if (source.type === 'base64') {
    const { media_type: mediaType, data } = source
    return { type: 'file', mediaType, data: version === 'v3' ? data : { type: 'data', data } }
  }
  if (!isReadable(source.url, urls)) return notShown(source.url)
  const url = new URL(source.url)
  return { type: 'file', mediaType: mediaTypeAt(url), data: version === 'v3' ? url : { type: 'url', url } }
}

/** Some packages refuse `image/*` for a URL, so this guesses a type. Providers that load the image detect its real type. */
function mediaTypeAt({ pathname }: URL): string {
  const [, ending = ''] = /\.(png|gif|webp)$/i.exec(pathname) ?? []
  return `image/${ending.toLowerCase() || 'jpeg'}`
}

function resultImage(image: ImageBlock, dialect: Dialect): Part {
  if (dialect.version === 'v4') return imagePart(image, dialect)
  const { source } = image
  if (source.type === 'base64') return { type: 'image-data', mediaType: source.media_type, data: source.data }
  return isReadable(source.url, dialect.urls) ? { type: 'image-url', url: source.url } : notShown(source.url)
}

/** pawl does not load URLs from users or tools, because the worker may have access to hosts that they must not reach. */
function notShown(url: string): Part {
  return { type: 'text', text: `[An image at ${url}, which is not shown: this model cannot load it.]` }
}

/** Whether the provider loads an image or a PDF from this URL. */
function isReadable(url: string, urls: SupportedUrls, type: 'image' | typeof PDF = 'image'): boolean {
  if (!URL.canParse(url)) return false
  const isMatch = type === PDF ? /^(?:\*|\*\/\*|application\/(?:\*|pdf))$/ : /^(?:\*|\*\/\*|image\/.+)$/
  return Object.entries(urls).some(
    ([mediaType, patterns]) => isMatch.test(mediaType) && patterns.some((pattern) => new RegExp(pattern).test(url)),
  )
}
