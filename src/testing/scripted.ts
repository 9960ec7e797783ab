// A model that is a function: deterministic, for tests and demos.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { DeclarationError, ModelError } from '../agent/errors.ts'
import type { Model, ModelCallContext, ModelRequest, ModelResponse } from '../agent/model.ts'
import { defined } from '../session/defined.ts'
import { checkOptions, duration, integer, options, text } from '../options/check.ts'
import { modelPriceOption } from '../models/model-price-option.ts'
import { modelPrice, type ModelPrice } from '../session/spending/model-price.ts'
import type { Duration } from '../session/duration.ts'
import type { ModelDelta } from '../session/watching/deltas.ts'
import type { AssistantBlock, Message, ToolResultBlock, ToolUseBlock } from '../session/content.ts'
import { NO_USAGE } from '../session/content.ts'
import type { Json } from '../session/json.ts'

/** A script's answer: text, content blocks, or a response with optional members. */
export type ScriptedAnswer = string | AssistantBlock[] | (Partial<ModelResponse> & { content: AssistantBlock[] })

/** Options of `scripted`. */
export interface ScriptedOptions {
  /** The model's name, which pawl records with its answers. Default `scripted`. */
  name?: string
  /** The model's context window in tokens, an integer from 1, for agents with `compaction`. Default: unknown. */
  contextWindow?: number
  /** What answers cost, in US dollars per million tokens, for agents with a budget in `maxUsd`. Default: pawl's price table, by the name. */
  price?: ModelPrice
  /** Maximum output tokens of a call, an integer from 1: an agent with a budget reserves them. Default: 8,192 are reserved. */
  maxTokens?: number
  /** Streams the text of an answer word by word, with this pause after each, as a real model would. Default: the whole text at once. */
  pace?: Duration
}

const OPTIONS = options({
  name: text("the model's name").optional(),
  contextWindow: integer(1).optional(),
  price: modelPriceOption.optional(),
  maxTokens: integer(1).optional(),
  pace: duration({ example: '20ms' }).optional(),
})

function invalid(problem: string): DeclarationError {
  return new DeclarationError('invalid_model', `scripted: ${problem}`)
}

/**
 * A `Model` from a function of the request. It must depend only on the request, so that a repeated call gets the same answer.
 * Without a `stopReason`, an answer with tool_use blocks stops with `tool_use`, any other with `end_turn`. Without `usage`, usage is zero.
 * Each block is streamed as one delta (see `pace`), unless the function calls `ctx.onDelta` itself. Errors of the function are rethrown: a `ModelError`
 * says whether the call may be retried.
 * `generate` throws ModelError `invalid_script` for any other answer.
 * @throws DeclarationError `invalid_model`.
 */
export function scripted(
  answer: (request: ModelRequest, ctx: ModelCallContext) => ScriptedAnswer | Promise<ScriptedAnswer>,
  given: ScriptedOptions = {},
): Model {
  if (typeof answer !== 'function') throw invalid('the first argument must be a function of the request that returns an answer.')
  const { name = 'scripted', contextWindow, price, maxTokens, pace: paceMs } = checkOptions(OPTIONS, given, invalid)
  return {
    name,
    // Each script has its own account, so that one script's rate limits do not affect another.
    account: randomUUID(),
    ...defined({ contextWindow, price: modelPrice(price), maxTokens }),
    runsTool: () => true,
    async generate(request, ctx) {
      ctx.signal.throwIfAborted()
      let hasStreamed = false
      const onDelta = (delta: ModelDelta): void => {
        hasStreamed = true
        ctx.onDelta(delta)
      }
      const response = responseOf(await answer(request, { ...ctx, onDelta }), name)
      ctx.signal.throwIfAborted()
      if (!hasStreamed) await stream(response.content, paceMs, ctx)
      return {
        stopReason: response.content.some((block) => block.type === 'tool_use') ? 'tool_use' : 'end_turn',
        usage: NO_USAGE,
        ...response,
      }
    },
  }
}

/** An answer that calls one tool: `calls('refund', { order: 'A17' })`. For several calls in one answer, join them: `[...calls('a'), ...calls('b')]`. */
export function calls(name: string, input: Json = {}): ToolUseBlock[] {
  return [toolUse(name, input)]
}

/** The result of a tool call, as the model sees it. */
export interface LastResult {
  /** The tool's name. */
  tool: string
  /** Its text. */
  text: string
  /** What the tool returned, if the text is JSON; otherwise the text. */
  value: Json
  /** Whether the call failed. */
  isError: boolean
}

/**
 * The newest tool result that the model has not answered yet, so a script can tell a user's message from a result:
 * `lastResult(messages)?.tool === 'refund' ? 'Done.' : calls('refund', { order: 'A17' })`. Undefined if the newest message is a user's.
 */
export function lastResult(messages: readonly Message[]): LastResult | undefined {
  const newest = messages.at(-1)
  if (newest?.role !== 'user' || typeof newest.content === 'string') return undefined
  const block = newest.content.findLast((one) => one.type === 'tool_result')
  if (block?.type !== 'tool_result') return undefined
  const asked = messages.flatMap(({ content }) => (typeof content === 'string' ? [] : content))
  const call = asked.findLast((one) => one.type === 'tool_use' && one.id === block.tool_use_id)
  const text = textOfResult(block.content)
  return { tool: call?.type === 'tool_use' ? call.name : '', text, value: jsonOr(text), isError: block.is_error === true }
}

function textOfResult(content: ToolResultBlock['content']): string {
  if (typeof content === 'string') return content
  return (content ?? []).flatMap((block) => (block.type === 'text' ? [block.text] : [])).join('\n')
}

function jsonOr(text: string): Json {
  try {
    return JSON.parse(text) as Json
  } catch {
    return text
  }
}

/** A request to run a tool, for a script's answer. pawl replaces the id with its own. */
export function toolUse(name: string, input: Json = {}, id = `toolu_${name}`): ToolUseBlock {
  return { type: 'tool_use', id, name, input }
}

function responseOf(given: ScriptedAnswer, name: string): Partial<ModelResponse> & { content: AssistantBlock[] } {
  if (typeof given === 'string') return { content: [{ type: 'text', text: given }] }
  if (Array.isArray(given)) return { content: given }
  if (Array.isArray(given?.content)) return given
  throw new ModelError(
    'invalid_script',
    `The script of model "${name}" returned ${given === undefined ? 'nothing' : JSON.stringify(given)}. Return text, content blocks or { content }.`,
    { retryable: false },
  )
}

async function stream(blocks: readonly AssistantBlock[], paceMs: number | undefined, { onDelta, signal }: ModelCallContext): Promise<void> {
  for (const [index, block] of blocks.entries()) {
    const delta = deltaOf(block, index)
    if (!delta) continue
    if (paceMs === undefined || delta.type !== 'text') {
      onDelta(delta)
      continue
    }
    for (const word of delta.text.match(/\s*\S+|\s+$/g) ?? []) {
      onDelta({ ...delta, text: word })
      await sleep(paceMs, undefined, { signal }).catch(() => signal.throwIfAborted())
    }
  }
}

function deltaOf(block: AssistantBlock, index: number): ModelDelta | undefined {
  if (block.type === 'text') return { type: 'text', index, text: block.text }
  if (block.type === 'thinking') return { type: 'thinking', index, thinking: block.thinking }
  if (block.type === 'tool_use') return { type: 'tool_input', index, partialJson: JSON.stringify(block.input), name: block.name }
  if (block.type === 'provider' && block.part === 'call') return { type: 'provider_call', index, id: block.id, name: block.name }
  return undefined
}
