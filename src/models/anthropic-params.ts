// The body of one call of Anthropic's Messages API.
import type { MessageCreateParamsStreaming, Tool, ToolUnion } from '@anthropic-ai/sdk/resources/messages'
import { contextWindowOf } from '../agent/context-windows.ts'
import type { ModelRequest } from '../agent/model.ts'
import { withCacheBreakpoints } from './anthropic-cache.ts'
import { wireMessages, withoutThinking } from './anthropic-messages.ts'
import type { AnthropicOptions } from './anthropic-options.ts'
import { containerIn } from './anthropic-server-tools.ts'
import { wellFormed } from '../session/well-formed.ts'
import { anthropicImages } from './image-limits.ts'
import { endsInUnthoughtCalls, soundJson } from './sound-messages.ts'

const DEFAULT_MAX_TOKENS = 32_000
/** Default tokens for the answer itself, in addition to a thinking budget. */
const TOKENS_AFTER_THINKING = 16_000

/** The body for a request: the same request and options always produce the same bytes. */
export function paramsOf(model: string, options: AnthropicOptions, request: ModelRequest): MessageCreateParamsStreaming {
  const { effort, params: more } = options
  const outputConfig = { ...more?.output_config, ...(effort && { effort }) }
  const system = wellFormed(request.system)
  const ofProvider = (request.providerTools ?? []).map(({ definition }) => definition as unknown as ToolUnion)
  const tools = [...ofProvider, ...request.tools.map(wireTool)]
  const params = {
    ...more,
    model,
    max_tokens: request.maxTokens ?? maxTokensOf(options),
    ...(Object.keys(outputConfig).length > 0 && { output_config: outputConfig }),
    ...(tools.length > 0 && { tools }),
    ...(system.trim() !== '' && { system: [{ type: 'text' as const, text: system }] }),
    ...conversationOf(model, options, request),
    ...containerOf(more?.container, request),
    stream: true as const,
  }
  return options.cache === 'off' ? params : withCacheBreakpoints(params, request.volatileBlocks)
}

/**
 * The messages, and the thinking that they allow. With a thinking budget, an answer whose calls have just been answered must begin with
 * thinking. It does not if it came from a fallback, or if the API refused its thinking. The model then answers without thinking until the
 * next answer without calls.
 */
function conversationOf(model: string, { thinking, contextWindow }: AnthropicOptions, { messages }: ModelRequest) {
  const images = anthropicImages(contextWindow ?? contextWindowOf(model))
  const sent = wireMessages(messages, images)
  if (thinking?.type !== 'enabled' || !endsInUnthoughtCalls(sent)) return { ...(thinking && { thinking }), messages: sent }
  return { thinking: { type: 'disabled' as const }, messages: wireMessages(withoutThinking(messages), images) }
}

/** Code continues in the container of the newest answer that has run code, unless the parameters name another one. */
function containerOf(given: MessageCreateParamsStreaming['container'], { messages, providerTools = [] }: ModelRequest) {
  if (typeof given === 'string' || given?.id || providerTools.length === 0) return {}
  const id = containerIn(messages)
  if (id === undefined) return {}
  return { container: given ? { ...given, id } : id }
}

function wireTool({ name, description, input_schema }: ModelRequest['tools'][number]): Tool {
  return { name, description: wellFormed(description), input_schema: soundJson(input_schema) as Tool.InputSchema }
}

/** `max_tokens` of a request that does not set it. */
export function maxTokensOf(options: AnthropicOptions): number {
  return options.maxTokens ?? Math.max(DEFAULT_MAX_TOKENS, thinkingTokensOf(options) + TOKENS_AFTER_THINKING)
}

/** The thinking budget, which must be less than `max_tokens`. */
export function thinkingTokensOf({ thinking }: AnthropicOptions): number {
  return thinking?.type === 'enabled' ? thinking.budget_tokens : 0
}
