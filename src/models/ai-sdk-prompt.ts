// Converts a transcript to a prompt of the AI SDK: the same transcript always yields the same prompt, and nothing that providers refuse.
import type { ModelRequest } from '../agent/model.ts'
import {
  type AssistantBlock,
  type ContentBlock,
  type ImageBlock,
  isBlank,
  isThinking,
  type Message,
  type ToolResultBlock,
} from '../session/content.ts'
import type { Json, JsonObject } from '../session/json.ts'
import type { LanguageModel, SupportedUrls } from './ai-sdk-types.ts'
import { argumentsObject } from './arguments-object.ts'

/** The properties of a model that determine the form of its prompt. */
export interface Dialect {
  version: LanguageModel['specificationVersion']
  urls: SupportedUrls
}

type Part = { type: string; providerOptions?: JsonObject } & Record<string, unknown>
type PromptMessage = { role: 'system'; content: string } | { role: 'user' | 'assistant' | 'tool'; content: Part[] }

/** The prompt of a request. */
export function promptOf({ system, messages }: Pick<ModelRequest, 'system' | 'messages'>, dialect: Dialect): PromptMessage[] {
  const names = toolNames(messages)
  const prompt: PromptMessage[] = system.trim() === '' ? [] : [{ role: 'system', content: system }]
  for (const { role, content } of merged(messages)) {
    if (role === 'assistant') {
      push(prompt, 'assistant', answerParts(content as AssistantBlock[]))
      continue
    }
    // Providers require the results of a turn's calls before other content of the user.
    const results = content.filter((block) => block.type === 'tool_result')
    push(
      prompt,
      'tool',
      results.map((block) => resultPart(block, names, dialect)),
    )
    push(
      prompt,
      'user',
      content.flatMap((block) => userPart(block, dialect)),
    )
  }
  return prompt
}

/** The tools of a request. */
export function toolsOf(tools: ModelRequest['tools']): object[] {
  return tools.map(({ name, description, input_schema: inputSchema }) => ({ type: 'function', name, description, inputSchema }))
}

/** The messages without the data that only their provider can read. */
export function withoutProviderData(messages: readonly Message[]): Message[] {
  return messages.map((message) => {
    if (message.role === 'user') return message
    const content = message.content.flatMap((block): AssistantBlock[] => {
      if (isThinking(block)) return []
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
      role === 'assistant' && content.some((block) => isThinking(block) || ('providerMetadata' in block && block.providerMetadata)),
  )
}

/** Adjacent messages of one role become one. */
function merged(messages: readonly Message[]): { role: Message['role']; content: ContentBlock[] }[] {
  const all: { role: Message['role']; content: ContentBlock[] }[] = []
  for (const { role, content } of messages) {
    const blocks: ContentBlock[] = typeof content === 'string' ? [{ type: 'text', text: content }] : content
    const last = all.at(-1)
    if (last?.role === role) last.content.push(...blocks)
    else all.push({ role, content: [...blocks] })
  }
  return all
}

function push(prompt: PromptMessage[], role: 'user' | 'assistant' | 'tool', content: Part[]): void {
  const last = prompt.at(-1)
  if (content.length === 0) return
  if (last?.role === role) last.content.push(...content)
  else prompt.push({ role, content })
}

/** Tool names by call id: the AI SDK's results name their tool, and the transcript's do not. */
function toolNames(messages: readonly Message[]): Map<string, string> {
  const names = new Map<string, string>()
  for (const { content } of messages) {
    if (typeof content === 'string') continue
    for (const block of content) if (block.type === 'tool_use') names.set(block.id, block.name)
  }
  return names
}

function answerParts(blocks: readonly AssistantBlock[]): Part[] {
  // Providers refuse an answer that ends in thinking, such as one that its token limit cut off.
  const end = blocks.findLastIndex((block) => !isThinking(block) && !isBlank(block))
  return blocks.slice(0, end + 1).flatMap((block): Part[] => {
    const options = block.providerMetadata && { providerOptions: block.providerMetadata }
    switch (block.type) {
      case 'text':
        return isBlank(block) ? [] : [{ type: 'text', text: block.text, ...options }]
      case 'thinking':
        return [{ type: 'reasoning', text: block.thinking, ...options }]
      case 'redacted_thinking':
        return []
      case 'tool_use':
        return [{ type: 'tool-call', toolCallId: block.id, toolName: block.name, input: argumentsObject(block.input), ...options }]
    }
  })
}

function userPart(block: ContentBlock, dialect: Dialect): Part[] {
  if (block.type === 'text') return isBlank(block) ? [] : [{ type: 'text', text: block.text }]
  return block.type === 'image' ? [imagePart(block, dialect)] : []
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
  const parts = typeof content === 'string' ? [{ type: 'text' as const, text: content }] : content.filter((part) => !isBlank(part))
  if (parts.every((part) => part.type === 'text')) {
    const value = parts.map(({ text }) => text).join('\n')
    return isError ? { type: 'error-text', value: value.trim() === '' ? 'failed' : value } : { type: 'text', value }
  }
  const value = parts.map((part) => (part.type === 'text' ? { type: 'text', text: part.text } : resultImage(part, dialect)))
  // The AI SDK cannot mark an output of several parts as an error.
  return { type: 'content', value: isError ? [{ type: 'text', text: 'The call failed:' }, ...value] : value }
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

/** Some packages refuse `image/*` for a URL. Providers that load the image detect its type themselves. */
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

/** pawl does not load URLs that users or tools name: the worker may have access to hosts that they must not reach. */
function notShown(url: string): Part {
  return { type: 'text', text: `[An image at ${url}, which is not shown: this model cannot load it.]` }
}

/** Whether the provider loads an image from this URL. */
function isReadable(url: string, urls: SupportedUrls): boolean {
  if (!URL.canParse(url)) return false
  return Object.entries(urls).some(
    ([mediaType, patterns]) => /^(?:\*|\*\/\*|image\/.+)$/.test(mediaType) && patterns.some((pattern) => new RegExp(pattern).test(url)),
  )
}
