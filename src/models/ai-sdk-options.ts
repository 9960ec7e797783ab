// The options of a model of the AI SDK, and their checks.
import { DeclarationError } from '../agent/errors.ts'
import { checkOptions, duration, integer, oneOf, options, where } from '../options/check.ts'
import type { Duration } from '../session/duration.ts'
import { isObject } from '../session/json.ts'
import type { ModelPrice } from '../session/spending/model-price.ts'
import type { LanguageModel, LanguageModelSettings } from './ai-sdk-types.ts'
import { modelPriceOption } from './model-price-option.ts'

/** Options of `aiSdk`. */
export interface AiSdkOptions {
  /** Maximum output tokens of a call, thinking included: an integer from 1. Default: the provider's own. */
  maxTokens?: number
  /** How long the provider may send nothing before the call fails with `timeout`. At most 24 days. Default `'10m'`. */
  timeout?: Duration
  /** Other settings of a call: `temperature`, `stopSequences`, `providerOptions`, … Default: the provider's own. */
  settings?: LanguageModelSettings
  /** The name that pawl records if the answer does not name its model. 1 to 200 characters. Default: the model's `modelId`. */
  name?: string
  /**
   * Names the provider that can read the thinking and the metadata in the answers: pawl sends them back only to models of the same
   * provider. Set it for a gateway, whose models belong to several providers. 1 to 200 characters. Default: the model's `provider`.
   */
  provider?: string
  /**
   * Identifies the account that the calls count against: after the provider refuses a call (`retry-after`), all models of the same provider
   * and account wait. Never use the API key itself, because pawl stores this value. 1 to 200 characters. Default: the model's `modelId`,
   * because providers limit each model separately.
   */
  account?: string
  /**
   * The model's context window in tokens, an integer from 1, for agents with `compaction`. Default: the published one for the `modelId`, if
   * pawl knows it.
   */
  contextWindow?: number
  /** What the answers cost, in US dollars per million tokens. Default: pawl's price table, by the name of the model that answered. */
  price?: ModelPrice
}

const NAME = where<string>((value) => typeof value === 'string' && /^[^\p{Cc}\p{Surrogate}]{1,200}$/u.test(value), '1 to 200 characters')

const number = where<number>((value) => typeof value === 'number' && Number.isFinite(value), 'a number').optional()
const record = (expected: string) => where<Record<string, never>>(isObject, expected).optional()

const SETTINGS = options({
  temperature: number,
  topP: number,
  topK: number,
  presencePenalty: number,
  frequencyPenalty: number,
  stopSequences: where<string[]>(
    (value) => Array.isArray(value) && value.every((one) => typeof one === 'string'),
    'a list of strings',
  ).optional(),
  seed: integer(Number.MIN_SAFE_INTEGER).optional(),
  reasoning: oneOf('provider-default', 'none', 'minimal', 'low', 'medium', 'high', 'xhigh', 'max').optional(),
  headers: record('an object of headers by name'),
  providerOptions: record("an object of settings by provider, such as { openai: { reasoningEffort: 'low' } }"),
})

const OPTIONS = options({
  maxTokens: integer(1).optional(),
  timeout: duration({ example: '10m' }).optional(),
  settings: SETTINGS.optional(),
  name: NAME.optional(),
  provider: NAME.optional(),
  account: NAME.optional(),
  price: modelPriceOption.optional(),
  contextWindow: integer(1).optional(),
})

const DEFAULT_TIMEOUT_MS = 600_000

/** Checks the model and the options. @throws DeclarationError `invalid_model`. */
export function checkAiSdk(model: LanguageModel, given: AiSdkOptions): { timeoutMs: number } {
  const bad = (problem: string): DeclarationError =>
    new DeclarationError('invalid_model', `aiSdk(${JSON.stringify(nameOf(model))}): ${problem}`)
  if (!isObject(model) || typeof model.doStream !== 'function' || typeof model.modelId !== 'string' || typeof model.provider !== 'string') {
    throw bad("the first argument must be a language model of the AI SDK, such as openai('gpt-5.5') from @ai-sdk/openai.")
  }
  const version: unknown = model.specificationVersion
  if (version !== 'v3' && version !== 'v4') {
    throw bad(`the model has specification ${JSON.stringify(version)}. Use a provider package for AI SDK 6 (v3) or 7 (v4).`)
  }
  const { timeout: timeoutMs = DEFAULT_TIMEOUT_MS, settings = {} } = checkOptions(OPTIONS, given, bad)
  if (version === 'v3' && settings.reasoning !== undefined) {
    throw bad('settings.reasoning needs a model with specification v4. Use settings.providerOptions, or a package for AI SDK 7.')
  }
  return { timeoutMs }
}

function nameOf(model: unknown): unknown {
  return isObject(model) ? model.modelId : typeof model === 'string' ? model : undefined
}
