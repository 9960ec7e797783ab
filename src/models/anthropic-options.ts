// The options of a Claude model, and their checks.
import type {
  MessageCreateParamsStreaming,
  OutputConfig,
  RawMessageStreamEvent,
  ThinkingConfigParam,
} from '@anthropic-ai/sdk/resources/messages'
import { DeclarationError } from '../agent/errors.ts'
import { foreignModel } from '../agent/provider-rules.ts'
import { checkOptions, duration, integer, oneOf, options, where } from '../options/check.ts'
import type { Duration } from '../session/duration.ts'
import type { ModelPrice } from '../session/spending/model-price.ts'
import { modelPriceOption } from './model-price-option.ts'

/** The part of an Anthropic SDK client that pawl uses; those for Bedrock and Vertex also have it. */
export interface MessagesClient {
  /** The client's `messages`, of which `create` is used. */
  messages: {
    create(
      body: MessageCreateParamsStreaming,
      options: { signal: AbortSignal; maxRetries: number; timeout: number },
    ): PromiseLike<AsyncIterable<RawMessageStreamEvent>>
  }
}

/** Options of `anthropic`. */
export interface AnthropicOptions {
  /**
   * Maximum output tokens of a call, thinking included: an integer from 1. Default 32,000, or `thinking.budget_tokens` + 16,000 if that is
   * more.
   */
  maxTokens?: number
  /** The model's thinking. Default: the model's own. */
  thinking?: ThinkingConfigParam
  /** How much effort the model puts into its answer. Default: the model's own. */
  effort?: NonNullable<OutputConfig['effort']>
  /** Whether pawl sets prompt-cache breakpoints on tools, system prompt and messages. Default `on`. */
  cache?: 'on' | 'off'
  /** How long the API may send nothing before the call fails with `timeout`. At most 24 days. Default `'10m'`. */
  timeout?: Duration
  /** The API key. Default: `ANTHROPIC_API_KEY`. */
  apiKey?: string
  /** The API's base URL. Default: `ANTHROPIC_BASE_URL`, otherwise Anthropic's own. */
  baseURL?: string
  /**
   * Your own client instead of `apiKey` and `baseURL`: for a proxy, other headers, Bedrock, Vertex. Default: pawl creates one at the first
   * call.
   */
  client?: MessagesClient
  /** What the answers cost, in US dollars per million tokens: for a discount, or another provider's prices. Default: pawl's price table. */
  price?: ModelPrice
  /**
   * The model's context window in tokens, an integer from 1, for agents with `compaction`. Default: the published one for the model, if
   * pawl knows it.
   */
  contextWindow?: number
  /**
   * Other parameters of a Messages request: `stop_sequences`, `metadata`, `service_tier`, … Default: nothing. Not `temperature`, `top_p` and
   * `top_k`, which Anthropic's API refuses for every model from its version 2026-10-21 on, unless the requests of your own `client` have
   * an earlier version. Not `cache_control` while `cache` is `on`.
   */
  params?: Partial<Omit<MessageCreateParamsStreaming, 'model' | 'messages' | 'system' | 'tools' | 'stream' | 'max_tokens' | 'thinking'>>
}

const OPTIONS = options({
  maxTokens: integer(1).optional(),
  thinking: where<ThinkingConfigParam>(
    isThinking,
    "an object such as { type: 'adaptive' } or { type: 'enabled', budget_tokens: 2000 }",
  ).optional(),
  effort: oneOf('low', 'medium', 'high', 'xhigh', 'max').optional(),
  cache: oneOf('on', 'off').optional(),
  timeout: duration({ example: '10m' }).optional(),
  apiKey: where<string>((value) => typeof value === 'string', 'text').optional(),
  baseURL: where<string>((value) => typeof value === 'string', 'a URL').optional(),
  client: where<MessagesClient>(
    (value) => typeof (value as MessagesClient | null | undefined)?.messages?.create === 'function',
    'a client of the Anthropic SDK',
  ).optional(),
  price: modelPriceOption.optional(),
  contextWindow: integer(1).optional(),
  params: where<object>(
    (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
    'an object with parameters of a Messages request',
  ).optional(),
})

/** Parameters that the API refuses from version 2026-10-21 on, even with their default values. pawl's own client sends this version. */
const SAMPLING_PARAMS = ['temperature', 'top_p', 'top_k']

/** Parameters that pawl sets from the session or from other options. */
const OWN_PARAMS = ['model', 'messages', 'system', 'tools', 'stream', 'max_tokens', 'thinking']

/** Leaves kinds of thinking that the SDK does not know yet to the API. */
function isThinking(value: unknown): boolean {
  const { type, budget_tokens: budget } = (value ?? {}) as { type?: unknown; budget_tokens?: unknown }
  return typeof type === 'string' && (type !== 'enabled' || Number.isSafeInteger(budget))
}

const DEFAULT_TIMEOUT_MS = 600_000

/** Checks the options. @throws DeclarationError `invalid_model`. */
export function checkModel(model: string, given: AnthropicOptions): { timeoutMs: number } {
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_model', `anthropic(${JSON.stringify(model)}): ${problem}`)
  if (typeof model !== 'string' || model.trim() === '') throw bad("the first argument must be a model's name, such as 'claude-sonnet-5-5'.")
  refuseSampling(given, bad)
  const foreign = given?.client ? undefined : foreignModel(model, given?.baseURL)
  if (foreign !== undefined) throw bad(foreign)
  const { maxTokens, timeout: timeoutMs = DEFAULT_TIMEOUT_MS, thinking, params = {}, cache } = checkOptions(OPTIONS, given, bad)
  const own = OWN_PARAMS.find((name) => name in params)
  if (own !== undefined) throw bad(`params must not contain ${own}, which pawl sets. Omit it.`)
  if ('cache_control' in params && cache !== 'off') {
    throw bad(
      "params must not contain cache_control while pawl sets its own cache breakpoints, because a request may have four at most. Omit it, or set cache: 'off'.",
    )
  }
  if (thinking?.type === 'enabled' && maxTokens !== undefined && thinking.budget_tokens >= maxTokens) {
    throw bad('maxTokens must be more than thinking.budget_tokens, which counts towards it.')
  }
  return { timeoutMs }
}

/** The caller's own client may send an earlier version. */
function refuseSampling({ params, client, ...others }: AnthropicOptions, bad: (problem: string) => DeclarationError): void {
  const inParams = client === undefined ? params : undefined
  const found = SAMPLING_PARAMS.find((name) => name in others || name in (inParams ?? {}))
  if (found === undefined) return
  throw bad(
    `Anthropic's API refuses ${found} for every model from its version 2026-10-21 on, which pawl sends. Omit it. If you need it, pass a \`client\` whose defaultHeaders have 'anthropic-version': '2023-06-01', and ${found} in \`params\`.`,
  )
}
