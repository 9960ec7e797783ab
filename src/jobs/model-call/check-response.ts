// Checks a model's answer before it becomes part of history: a Model is user code, and history cannot be corrected.
import { inspect } from 'node:util'
import { ModelError } from '../../agent/errors.ts'
import type { Model, ModelResponse } from '../../agent/model.ts'
import { type ModelPrice, modelPrice } from '../../session/spending/model-price.ts'
import { defined } from '../../session/defined.ts'
import { type AssistantBlock, NO_USAGE, type ProviderBlock, type AnswerSource, type StopReason, type Usage } from '../../session/content.ts'
import { blocksIn, withoutBlocks } from '../../session/provider-blocks.ts'
import { isObject, isTooDeep, jsonBytes, MAX_DEPTH } from '../../session/json.ts'
import { numberText } from '../../session/number-text.ts'
import { MAX_CALLS } from '../../session/fold/snapshot.ts'
import { plainJson } from '../json.ts'
import { beginningOf } from '../../session/beginning.ts'

/** A valid answer as plain JSON. */
export interface CheckedResponse {
  content: AssistantBlock[]
  stopReason: StopReason
  usage: Usage
  /** The model that answered. */
  model: string
  /** The price that the Model states. */
  price?: ModelPrice
  /** The values that were replaced, for the log. */
  notes: string[]
}

/**
 * An answer, its calls' resolutions and the results of riding reads must fit into one activity's result, even if a codec expands them. The
 * server's limit is 2 MB.
 */
export const MAX_ANSWER_BYTES = 1_000_000
/** The own blocks of a provider become a blob if they are large. */
const MAX_PROVIDER_BYTES = 50_000_000
/** More tokens than any call can use. */
const MAX_TOKENS = 1e12
const MAX_NAME = 200

/** Stop reasons of answers that were cut off, so that their last block may be incomplete. */
const CUT_OFF: readonly StopReason[] = ['max_tokens', 'model_context_window_exceeded']

const STOP_REASONS: readonly string[] = [
  'end_turn',
  'max_tokens',
  'stop_sequence',
  'tool_use',
  'pause_turn',
  'refusal',
  'model_context_window_exceeded',
]

/**
 * Checks an answer. Invalid content fails the call. Invalid usage and names are replaced and noted, because the answer itself is valid.
 * The calls of a refused answer are dropped: they must not run.
 * @throws ModelError `invalid_response`, `unknown_block`, `calls_missing`, `context_overflow`.
 */
export function checkResponse(response: ModelResponse, { name, price }: Pick<Model, 'name' | 'price'>): CheckedResponse {
  if (!Array.isArray(response?.content)) throw unusable('content is not a list of blocks')
  const given = plainBlocks(response.content)
  for (const block of given) {
    if (!isKnown(block)) throw unknownBlock(String(block?.type))
    if (!isSound(block)) throw unusable(`a block of type ${JSON.stringify(block?.type)} is malformed`)
    if (block.type === 'tool_use') block.input ??= {}
    if (!isObject(block.providerMetadata)) delete block.providerMetadata
    checkSources(block)
  }
  const { stopReason } = response
  if (!STOP_REASONS.includes(stopReason)) throw unusable(`the stop reason is ${JSON.stringify(stopReason)}`)
  if (stopReason === 'tool_use' && !given.some(({ type }) => type === 'tool_use')) throw callsMissing()
  const content = stopReason === 'refusal' ? given.filter(({ type }) => type !== 'tool_use') : given
  if (stopReason === 'model_context_window_exceeded' && !content.some(saysSomething)) throw noRoom()
  refuseLarge(jsonBytes(withoutBlocks(content)), MAX_ANSWER_BYTES, 'it has')
  refuseLarge(jsonBytes(blocksIn(content)), MAX_PROVIDER_BYTES, 'what its provider’s tools returned has')
  const calls = content.filter(({ type }) => type === 'tool_use').length
  if (calls > MAX_CALLS) throw unusable(`it requests ${calls} calls, and the limit is ${MAX_CALLS}`)
  const notes: string[] = []
  const model = nameOf(response.model, name, notes)
  return { content, stopReason, usage: usageOf(response, model, notes), model, ...defined({ price: priceOf(price, model, notes) }), notes }
}

/** Arguments that are nested too deep become text, so that the call gets an error result, like one whose arguments are not JSON. */
function plainBlocks(content: AssistantBlock[]): AssistantBlock[] {
  const sound = content.map((block) => (block?.type === 'tool_use' && isTooDeep(block.input) ? { ...block, input: TOO_DEEP } : block))
  try {
    return plainJson(sound) as unknown as AssistantBlock[]
  } catch (error) {
    throw unusable(`its content is not JSON: ${error instanceof Error ? error.message : String(error)}`)
  }
}

const TOO_DEEP = `They are nested deeper than ${MAX_DEPTH} levels, and were not recorded.`

/**
 * An answer announces calls but contains none. On a second request, a model usually makes them. If it happens twice in a row, something
 * drops them.
 */
function callsMissing(): ModelError {
  return new ModelError(
    'calls_missing',
    'The model’s answer announces calls but contains none. pawl asks once more; if that does not help, check whether the provider, or a proxy in front of it, drops calls.',
    { retryable: true, fallback: true },
  )
}

/**
 * The position, among the answer's calls, of the call at which the answer was cut off. Its arguments may be incomplete even if they are
 * JSON.
 */
export function cutCall({ content, stopReason }: Pick<CheckedResponse, 'content' | 'stopReason'>): number | undefined {
  if (!CUT_OFF.includes(stopReason) || content.at(-1)?.type !== 'tool_use') return undefined
  return content.filter(({ type }) => type === 'tool_use').length - 1
}

function saysSomething(block: AssistantBlock): boolean {
  return block.type === 'tool_use' || block.type === 'provider' || (block.type === 'text' && block.text.trim() !== '')
}

function noRoom(): ModelError {
  return new ModelError(
    'context_overflow',
    'The conversation fills the model’s context window and leaves no room for an answer. Declare `compaction` for the agent and continue the run, or abandon it or go back (`recover`, `rollback`).',
    { retryable: false },
  )
}

function unusable(what: string): ModelError {
  return new ModelError('invalid_response', `The model's answer cannot be used: ${what}. Fix the Model's generate().`, {
    retryable: false,
    fallback: true,
  })
}

function refuseLarge(bytes: number, limit: number, what: string): void {
  if (bytes > limit) throw unusable(`${what} ${numberText(bytes)} bytes, and the limit is ${numberText(limit)}`)
}

/** Nothing of an answer is dropped in silence: what pawl cannot send back would change the conversation. */
function unknownBlock(type: string): ModelError {
  return new ModelError(
    'unknown_block',
    `The model’s answer has a block of type ${JSON.stringify(beginningOf(type, MAX_NAME))}, which pawl does not know, so it cannot be recorded and sent back. Turn off what makes the provider send it (a tool, a parameter), or update pawl.`,
    { retryable: false, fallback: true },
  )
}

const KNOWN: readonly unknown[] = ['text', 'thinking', 'redacted_thinking', 'tool_use', 'provider'] satisfies AssistantBlock['type'][]

function isKnown(block: AssistantBlock | null): boolean {
  return typeof block?.type !== 'string' || KNOWN.includes(block.type)
}

/** Sources are only shown, so those that cannot be shown are left out. */
function checkSources(block: AssistantBlock): void {
  if (!('sources' in block)) return
  const sources = Array.isArray(block.sources) ? block.sources.filter(isSource) : []
  if (sources.length > 0) block.sources = sources
  else delete block.sources
}

function isSource(given: unknown): given is AnswerSource {
  const { type, url, title, mediaType } = (given ?? {}) as Record<string, unknown>
  const isTitled = typeof title === 'string'
  if (type === 'url') return typeof url === 'string' && /^https?:\/\//.test(url) && (title === undefined || isTitled)
  return type === 'document' && isTitled && typeof mediaType === 'string'
}

const PARTS: readonly unknown[] = ['call', 'result', 'source'] satisfies ProviderBlock['part'][]

function isSound(block: AssistantBlock | null): boolean {
  switch (block?.type) {
    case 'text':
      return typeof block.text === 'string'
    case 'thinking':
      return typeof block.thinking === 'string'
    case 'redacted_thinking':
      return typeof block.data === 'string'
    case 'tool_use':
      return typeof block.name === 'string'
    case 'provider':
      return PARTS.includes(block.part) && typeof block.name === 'string' && typeof block.id === 'string' && isObject(block.block)
    default:
      return false
  }
}

/** The name, if Postgres can store it and people can query it; otherwise undefined. */
export function modelName(given: unknown): string | undefined {
  const isName = typeof given === 'string' && given !== '' && given.length <= MAX_NAME && !/\p{Cc}|\p{Surrogate}/u.test(given)
  return isName ? given : undefined
}

/** The model's name from the answer, or else the Model's own. */
function nameOf(answered: unknown, own: unknown, notes: string[]): string {
  const name = modelName(answered)
  if (name !== undefined) return name
  if (answered != null) {
    notes.push(
      `The answer names ${previewOf(answered)} as its model, which is not a valid name. The Model's own name is recorded instead. Fix its generate().`,
    )
  }
  const ownName = modelName(own)
  if (ownName !== undefined) return ownName
  notes.push(`The Model's name is ${previewOf(own)}, which is not a valid name. "unknown" is recorded instead. Give the Model a \`name\`.`)
  return 'unknown'
}

/** Whether a provider has reported the usage of a call: no count is missing or impossible. */
export function isUsage(given: unknown): given is Usage {
  const usage = (given ?? {}) as Partial<Record<keyof Usage, unknown>>
  const isCount = (tokens: unknown): boolean => typeof tokens === 'number' && tokens >= 0 && tokens <= MAX_TOKENS
  const caches = [usage.cache_creation_input_tokens, usage.cache_read_input_tokens]
  return isCount(usage.input_tokens) && isCount(usage.output_tokens) && caches.every((tokens) => tokens == null || isCount(tokens))
}

/** Adapters may estimate fractions, which are rounded; missing counts are 0. */
function usageOf({ usage }: ModelResponse, model: string, notes: string[]): Usage {
  const counted: Usage = { ...NO_USAGE }
  for (const kind of [...(Object.keys(counted) as (keyof Usage)[]), 'web_search_requests' as const]) {
    const tokens: unknown = usage?.[kind]
    if (tokens == null || (kind === 'web_search_requests' && tokens === 0)) continue
    if (typeof tokens === 'number' && tokens >= 0 && tokens <= MAX_TOKENS) counted[kind] = Math.round(tokens)
    else
      notes.push(`The Model "${model}" reports ${previewOf(tokens)} as ${kind}, which is impossible. 0 is recorded instead. Fix its usage.`)
  }
  return counted
}

/** A Model is user code. An invalid price is left out, because a wrong sum is worse than none. */
function priceOf(given: unknown, model: string, notes: string[]): ModelPrice | undefined {
  if (given === undefined) return undefined
  const price = modelPrice(given)
  if (!price)
    notes.push(`The price of the Model "${model}" is ${previewOf(given)}, which is not a price. It is ignored. Fix its \`price\`.`)
  return price
}

function previewOf(value: unknown): string {
  return beginningOf(inspect(value, { depth: 0, customInspect: false }), 100)
}
