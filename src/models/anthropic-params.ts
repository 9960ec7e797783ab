// The body of one call of Anthropic's Messages API.
import type { MessageCreateParamsStreaming, Tool } from '@anthropic-ai/sdk/resources/messages'
import type { ModelRequest } from '../agent/model.ts'
import { withCacheBreakpoints } from './anthropic-cache.ts'
import { wireMessages } from './anthropic-messages.ts'
import type { AnthropicOptions } from './anthropic-options.ts'

const DEFAULT_MAX_TOKENS = 32_000
/** Default tokens for the answer itself beside a thinking budget. */
const TOKENS_AFTER_THINKING = 16_000

/** `temperature` is no longer in the SDK's types; older models still accept it. */
export type AnthropicParams = MessageCreateParamsStreaming & { temperature?: number }

/** The body for a request: the same request and options always produce the same bytes. */
export function paramsOf(model: string, options: AnthropicOptions, request: ModelRequest): AnthropicParams {
  const { thinking, effort, temperature, params: more } = options
  const outputConfig = { ...more?.output_config, ...(effort && { effort }) }
  const isThinking = thinking !== undefined && thinking.type !== 'disabled'
  const params = {
    ...more,
    model,
    max_tokens: request.maxTokens ?? maxTokensOf(options),
    ...(thinking && { thinking }),
    ...(Object.keys(outputConfig).length > 0 && { output_config: outputConfig }),
    ...(temperature !== undefined && !isThinking && { temperature }),
    ...(request.tools.length > 0 && { tools: request.tools.map(wireTool) }),
    ...(request.system.trim() !== '' && { system: [{ type: 'text' as const, text: request.system }] }),
    messages: wireMessages(request.messages),
    stream: true as const,
  }
  return options.cache === 'off' ? params : withCacheBreakpoints(params, request.volatileBlocks)
}

function wireTool({ name, description, input_schema }: ModelRequest['tools'][number]): Tool {
  return { name, description, input_schema: input_schema as Tool.InputSchema }
}

/** `max_tokens` of a request that does not set it. */
export function maxTokensOf(options: AnthropicOptions): number {
  return options.maxTokens ?? Math.max(DEFAULT_MAX_TOKENS, thinkingTokensOf(options) + TOKENS_AFTER_THINKING)
}

/** The thinking budget, which must be less than `max_tokens`. */
export function thinkingTokensOf({ thinking }: AnthropicOptions): number {
  return thinking?.type === 'enabled' ? thinking.budget_tokens : 0
}
