// Rules of providers for the tools of every request. pawl checks them when the agent is declared, not only at its first model call.
import type { JsonObject } from '../session/json.ts'
import { isObject } from '../session/json.ts'
import type { ModelChoice } from './model-choice.ts'

/** Anthropic's API checks the names of an input's own properties, but not those further inside. */
const PROPERTY_NAME = /^[a-zA-Z0-9_.-]{1,64}$/

/** The name of the input's property that a provider of these models refuses; undefined if they accept all. */
export function refusedProperty(models: readonly ModelChoice[], { properties }: JsonObject): string | undefined {
  if (!models.some(isAnthropics) || !isObject(properties)) return undefined
  return Object.keys(properties).find((name) => !PROPERTY_NAME.test(name))
}

/** Beginnings of the names of other providers' models. */
const OTHERS = /^(?:gpt-|chatgpt-|o[134](?:-|$)|gemini-|grok-|mistral-|llama-|deepseek-|qwen)/i

/**
 * The problem with the name of a Claude model that is another provider's; undefined if there is none. At another base URL, a proxy may serve
 * any model.
 */
export function foreignModel(name: string, baseURL: string | undefined = process.env.ANTHROPIC_BASE_URL): string | undefined {
  if (baseURL !== undefined || !OTHERS.test(name)) return undefined
  return `"${name}" is not a Claude model. For another provider, install its AI SDK package and pass aiSdk(provider('${name}')); for a proxy that speaks Anthropic's API, pass anthropic('${name}', { baseURL }).`
}

/** Models that a function chooses are known only when they are called. */
function isAnthropics(model: ModelChoice): boolean {
  if (typeof model === 'string') return true
  return typeof model === 'object' && /anthropic/.test(String(model.provider))
}
