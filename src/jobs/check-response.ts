// Checks a model's answer before it becomes part of history: a Model is user code, and history cannot be corrected.
import { inspect } from 'node:util'
import { ModelError } from '../agent/errors.ts'
import type { Model, ModelResponse } from '../agent/model.ts'
import { type AssistantBlock, NO_USAGE, type StopReason, type Usage } from '../session/content.ts'
import { jsonBytes } from '../session/json.ts'
import { MAX_CALLS } from '../session/snapshot.ts'
import { plainJson } from './json.ts'

/** A valid answer as plain JSON. */
export interface CheckedResponse {
  content: AssistantBlock[]
  stopReason: StopReason
  usage: Usage
  /** The model that answered. */
  model: string
  /** Values that were replaced; for the log. */
  notes: string[]
}

/** An answer and the resolutions of its calls must fit into an activity's result, even if a codec expands them; the server's limit is 2 MB. */
const MAX_ANSWER_BYTES = 1_000_000
/** More tokens than any call can use. */
const MAX_TOKENS = 1e12
const MAX_NAME = 200

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
 * @throws ModelError `invalid_response`.
 */
export function checkResponse(response: ModelResponse, { name }: Pick<Model, 'name'>): CheckedResponse {
  if (!Array.isArray(response?.content)) throw unusable('content is not a list of blocks')
  const content = plainJson(response.content) as unknown as AssistantBlock[]
  for (const block of content) {
    if (!isSound(block)) throw unusable(`a block of type ${JSON.stringify(block?.type)} is malformed`)
    if (block.type === 'tool_use') block.input ??= {}
  }
  const bytes = jsonBytes(content)
  if (bytes > MAX_ANSWER_BYTES) throw unusable(`it has ${bytes} bytes, and the limit is ${MAX_ANSWER_BYTES}`)
  const calls = content.filter(({ type }) => type === 'tool_use').length
  if (calls > MAX_CALLS) throw unusable(`it requests ${calls} calls, and the limit is ${MAX_CALLS}`)
  const { stopReason } = response
  if (!STOP_REASONS.includes(stopReason)) throw unusable(`the stop reason is ${JSON.stringify(stopReason)}`)
  const notes: string[] = []
  const model = nameOf(response.model, name, notes)
  return { content, stopReason, usage: usageOf(response, model, notes), model, notes }
}

function unusable(what: string): ModelError {
  return new ModelError('invalid_response', `The model's answer cannot be used: ${what}. Fix the Model's generate().`, { retryable: false })
}

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
    default:
      return false
  }
}

/** The model's name in the answer, otherwise the Model's own. */
function nameOf(answered: unknown, own: unknown, notes: string[]): string {
  if (answered != null && !isName(answered)) {
    notes.push(
      `The answer names ${previewOf(answered)} as its model, which is not a valid name: the Model's own name is recorded. Fix its generate().`,
    )
  }
  if (isName(answered)) return answered
  if (isName(own)) return own
  notes.push(`The Model's name is ${previewOf(own)}, which is not a valid name: "unknown" is recorded. Give the Model a \`name\`.`)
  return 'unknown'
}

/** Names that Postgres can store and people can query. */
function isName(name: unknown): name is string {
  return typeof name === 'string' && name !== '' && name.length <= MAX_NAME && !/\p{Cc}|\p{Surrogate}/u.test(name)
}

/** Adapters may estimate fractions, which are rounded; missing counts are 0. */
function usageOf({ usage }: ModelResponse, model: string, notes: string[]): Usage {
  const counted = { ...NO_USAGE }
  for (const kind of Object.keys(counted) as (keyof Usage)[]) {
    const tokens: unknown = usage?.[kind]
    if (tokens == null) continue
    if (typeof tokens === 'number' && tokens >= 0 && tokens <= MAX_TOKENS) counted[kind] = Math.round(tokens)
    else notes.push(`The Model "${model}" reports ${previewOf(tokens)} as ${kind}, which is impossible: 0 is recorded. Fix its usage.`)
  }
  return counted
}

function previewOf(value: unknown): string {
  return inspect(value, { depth: 0, customInspect: false }).slice(0, 100)
}
