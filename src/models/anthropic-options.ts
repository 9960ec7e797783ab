// The options of a Claude model, and their checks.
import type {
  MessageCreateParamsStreaming,
  OutputConfig,
  RawMessageStreamEvent,
  ThinkingConfigParam,
} from '@anthropic-ai/sdk/resources/messages'
import { DeclarationError } from '../agent/errors.ts'

/** The part of an Anthropic SDK client that pawl uses; those for Bedrock and Vertex have it, too. */
export interface MessagesClient {
  messages: {
    create(
      body: MessageCreateParamsStreaming,
      options: { signal: AbortSignal; maxRetries: number; timeout: number },
    ): PromiseLike<AsyncIterable<RawMessageStreamEvent>>
  }
}

/** Options of `anthropic`. */
export interface AnthropicOptions {
  /** Maximum output tokens of a call, thinking included. Default 32,000, or `thinking.budget_tokens` + 16,000 if that is more. */
  maxTokens?: number
  /** The model's thinking. Default: the model's own. */
  thinking?: ThinkingConfigParam
  /** How much effort the model puts into its answer. Default: the model's own. */
  effort?: NonNullable<OutputConfig['effort']>
  /** 0 to 1; left out while `thinking` is on. Models from Claude Opus 4.7 on refuse it. */
  temperature?: number
  /** Whether prompt-cache breakpoints are set on tools, system prompt and messages. Default `on`. */
  cache?: 'on' | 'off'
  /** Longest silence of the API, in milliseconds, before the call fails with `timeout`. Default 600,000. */
  timeoutMs?: number
  /** Default: `ANTHROPIC_API_KEY`. */
  apiKey?: string
  /** Default: `ANTHROPIC_BASE_URL`, otherwise Anthropic's own. */
  baseURL?: string
  /** Your own client instead of `apiKey` and `baseURL`: for a proxy, other headers, Bedrock, Vertex. */
  client?: MessagesClient
  /** Other parameters of a Messages request: `stop_sequences`, `metadata`, `service_tier`, … */
  params?: Partial<Omit<MessageCreateParamsStreaming, 'model' | 'messages' | 'system' | 'tools' | 'stream' | 'max_tokens' | 'thinking'>>
}

/** @throws DeclarationError `invalid_model`. */
export function validateOptions(model: string, options: AnthropicOptions): void {
  const bad = (what: string): never => {
    throw new DeclarationError('invalid_model', `anthropic(${JSON.stringify(model)}): ${what}`)
  }
  const { maxTokens, thinking, temperature, timeoutMs } = options
  if (typeof model !== 'string' || model.trim() === '') bad("the model's name must be a string, such as 'claude-sonnet-5-5'.")
  if (maxTokens !== undefined && !(Number.isInteger(maxTokens) && maxTokens > 0)) bad('maxTokens must be a positive integer.')
  if (timeoutMs !== undefined && !(Number.isFinite(timeoutMs) && timeoutMs > 0)) bad('timeoutMs must be a positive number of milliseconds.')
  if (temperature !== undefined && !(temperature >= 0 && temperature <= 1)) bad('temperature must be a number from 0 to 1.')
  if (thinking?.type === 'enabled' && maxTokens !== undefined && thinking.budget_tokens >= maxTokens) {
    bad('maxTokens must be greater than thinking.budget_tokens, which counts towards it.')
  }
}
