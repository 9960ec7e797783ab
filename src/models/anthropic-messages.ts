// Converts the messages of a request to the form of Anthropic's API: the same transcript always yields the same bytes.
import type { ContentBlockParam, DocumentBlockParam, TextCitationParam, ToolResultBlockParam } from '@anthropic-ai/sdk/resources/messages'
import {
  type DocumentBlock,
  isThinking,
  type Message,
  type RedactedThinkingBlock,
  type ThinkingBlock,
  type ToolResultBlock,
  type UserBlock,
} from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { citationsIn, isSentBack, sentBlock } from './anthropic-server-tools.ts'
import type { ImageLimits } from './image-limits.ts'
import { soundMessages } from './sound-messages.ts'
import type { SoundAnswerBlock } from './sound-types.ts'

/** A message in the API's long form. pawl always sends this form, so that a cache breakpoint changes nothing else. */
export interface WireMessage {
  role: 'user' | 'assistant'
  content: ContentBlockParam[]
}

/** The transcript for the API. */
export function wireMessages(messages: readonly Message[], images: ImageLimits): WireMessage[] {
  const sound = soundMessages(messages, { images, keepsThinking, keepsProviderBlock: isSentBack, continuesAnswers: true })
  const citations = citationsIn(sound)
  return sound.map(({ role, content }) => ({ role, content: content.map((block) => wireBlock(block, citations)) }))
}

/** The messages without thinking. Omits messages that contain nothing else. */
export function withoutThinking(messages: readonly Message[]): Message[] {
  return messages.map((message) =>
    message.role === 'assistant' ? { ...message, content: message.content.filter((block) => !isThinking(block)) } : message,
  )
}

/** Whether any message contains thinking. */
export function hasThinking(messages: readonly Message[]): boolean {
  return messages.some(({ content }) => typeof content !== 'string' && content.some(isThinking))
}

/** Thinking without a signature cannot be sent back. Empty thinking with one can: newer models do not reveal the text. */
function keepsThinking(block: ThinkingBlock | RedactedThinkingBlock): boolean {
  return (block.type === 'thinking' ? block.signature : block.data) !== ''
}

function wireBlock(block: UserBlock | ToolResultBlock | SoundAnswerBlock, citations: ReturnType<typeof citationsIn>): ContentBlockParam {
  switch (block.type) {
    case 'text': {
      const cited = citations.get(block) as TextCitationParam[] | undefined
      return { ...wirePart(block), ...(cited && { citations: cited }) } as ContentBlockParam
    }
    case 'provider':
      return sentBlock(block)
    case 'image':
    case 'document':
      return wirePart(block)
    case 'thinking':
      return { type: 'thinking', thinking: block.thinking, signature: block.signature }
    case 'redacted_thinking':
      return { type: 'redacted_thinking', data: block.data }
    case 'tool_use':
      return { type: 'tool_use', id: block.id, name: block.name, input: block.input }
    case 'tool_result':
      return wireResult(block)
  }
}

function wireResult({ tool_use_id, content, is_error }: ToolResultBlock): ToolResultBlockParam {
  const sent = typeof content === 'string' ? content : content.map(wirePart)
  return { type: 'tool_result', tool_use_id, content: sent, ...(is_error && { is_error: true }) }
}

function wirePart(part: UserBlock) {
  if (part.type === 'text') return { type: 'text' as const, text: part.text }
  if (part.type === 'document') return wireDocument(part)
  const { source } = part
  return {
    type: 'image' as const,
    source:
      source.type === 'url'
        ? { type: 'url' as const, url: source.url }
        : { type: 'base64' as const, media_type: source.media_type, data: source.data },
  }
}

function wireDocument({ source, title, context, citations }: DocumentBlock): DocumentBlockParam {
  return {
    type: 'document',
    source: { ...source },
    ...defined({ title, context }),
    ...(citations?.enabled && { citations: { enabled: true } }),
  }
}
