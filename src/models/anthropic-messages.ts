// Converts a transcript for Anthropic's API: the same transcript always yields the same bytes, and nothing that the API refuses.
import type { ContentBlockParam, ToolResultBlockParam } from '@anthropic-ai/sdk/resources/messages'
import {
  type ContentBlock,
  type ImageBlock,
  isBlank,
  isThinking,
  type Message,
  type TextBlock,
  type ToolResultBlock,
} from '../session/content.ts'
import { argumentsObject } from './arguments-object.ts'

/** A message in the API's long form, the only one sent, so that a cache breakpoint changes nothing else. */
export interface WireMessage {
  role: 'user' | 'assistant'
  content: ContentBlockParam[]
}

/** The transcript for the API: adjacent messages of one role are merged, and empty ones are left out. */
export function wireMessages(messages: readonly Message[]): WireMessage[] {
  const merged: WireMessage[] = []
  for (const message of messages) {
    const content = wireBlocks(message)
    const last = merged.at(-1)
    if (content.length === 0) continue
    if (last?.role === message.role) last.content.push(...content)
    else merged.push({ role: message.role, content })
  }
  return merged.map((message) => (message.role === 'user' ? { ...message, content: resultsFirst(message.content) } : message))
}

/** The messages without thinking; messages with nothing else are left out. */
export function withoutThinking(messages: readonly Message[]): Message[] {
  return messages.map((message) =>
    message.role === 'assistant' ? { ...message, content: message.content.filter((block) => !isThinking(block)) } : message,
  )
}

/** Whether any message contains thinking. */
export function hasThinking(messages: readonly Message[]): boolean {
  return messages.some(({ content }) => typeof content !== 'string' && content.some(isThinking))
}

function wireBlocks(message: Message): ContentBlockParam[] {
  const given: ContentBlock[] = typeof message.content === 'string' ? [{ type: 'text', text: message.content }] : message.content
  const blocks = given.flatMap((block) => wireBlock(block) ?? [])
  if (message.role === 'user') return blocks
  // The API refuses an assistant message that ends in thinking, such as one that max_tokens cut off.
  const end = blocks.findLastIndex((block) => !isThinking(block))
  return blocks.slice(0, end + 1)
}

function wireBlock(block: ContentBlock): ContentBlockParam | undefined {
  switch (block.type) {
    case 'text':
      return isBlank(block) ? undefined : { type: 'text', text: block.text }
    case 'image':
      return wireImage(block)
    case 'thinking':
      // Thinking without a signature cannot be sent back. Empty thinking with one can: newer models do not reveal the text.
      return block.signature === '' ? undefined : { type: 'thinking', thinking: block.thinking, signature: block.signature }
    case 'redacted_thinking':
      return block.data === '' ? undefined : { type: 'redacted_thinking', data: block.data }
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: argumentsObject(block.input) }
    case 'tool_result':
      return wireResult(block)
    default:
      return undefined
  }
}

function wireResult(block: ToolResultBlock): ToolResultBlockParam {
  const content = typeof block.content === 'string' ? block.content : block.content.filter((part) => !isBlank(part)).map(wirePart)
  const result: ToolResultBlockParam = { type: 'tool_result', tool_use_id: block.tool_use_id, content }
  if (block.is_error !== true) return result
  // The API refuses an empty error.
  return { ...result, content: content.length === 0 ? 'failed' : content, is_error: true }
}

function wirePart(part: TextBlock | ImageBlock) {
  return part.type === 'text' ? { type: 'text' as const, text: part.text } : wireImage(part)
}

function wireImage({ source }: ImageBlock) {
  return {
    type: 'image' as const,
    source:
      source.type === 'url'
        ? { type: 'url' as const, url: source.url }
        : { type: 'base64' as const, media_type: source.media_type, data: source.data },
  }
}

/** The API requires the results of a turn's calls before other content of the user. */
function resultsFirst(blocks: ContentBlockParam[]): ContentBlockParam[] {
  const isResult = (block: ContentBlockParam) => block.type === 'tool_result'
  return [...blocks.filter(isResult), ...blocks.filter((block) => !isResult(block))]
}
