// The compaction option of an agent: when pawl summarises a conversation, which model does it, and what stays unchanged.
import { checkOptions, fn, integer, options, where } from '../options/check.ts'
import type { CompactionPolicy } from '../session/transcript/compaction.ts'
import type { Message, Usage } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { isObject } from '../session/json.ts'
import { contextWindowOf, isContextWindow } from './context-windows.ts'
import { isModelChoice, type ModelChoice } from './model-choice.ts'
import type { AgentContext } from './tool.ts'

/** A part of a conversation to summarise. */
// oxlint-disable-next-line typescript/no-explicit-any -- a function for any context fits where any is accepted
export interface SummariseInput<C = any, S = any, L = any> {
  /** The messages, oldest first: whole turns, in which every call has its result. */
  readonly messages: readonly Message[]
  /** The summary of everything before them, which the new summary replaces; undefined if nothing comes before them. */
  readonly previous: string | undefined
  /** The most tokens that the summary should have. pawl cuts off text beyond four bytes for each of them. */
  readonly maxTokens: number
  /** The context of the session, its run and its turn. */
  readonly ctx: AgentContext<C, S, L>
  /** Aborts on interrupt, deadline and worker shutdown. */
  readonly signal: AbortSignal
}

/** A summary with its cost, for a function that calls its own model. */
export interface Summary {
  /** The summary. */
  text: string
  /** The model that wrote it, for `token_usage`. */
  model: string
  /** Tokens used. */
  usage: Usage
}

/** Writes a summary. Anything that it throws counts as a failed attempt; a `ModelError` says whether and when to retry. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export type Summarise<C = any, S = any, L = any> = (input: SummariseInput<C, S, L>) => string | Summary | Promise<string | Summary>

/** See `compaction` of `AgentOptions`. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export interface CompactionOptions<C = any, S = any, L = any> {
  /** The share of the model's window from which pawl summarises the conversation: above 0 and below 1. Default 0.8. */
  at?: number
  /** How many of the newest turns stay unchanged: an integer from 1. Default 4. */
  keepTurns?: number
  /** The model that writes the summaries. Default: the agent's, with its `fallback`. */
  model?: ModelChoice<C, S, L>
  /** Your own function that writes the summaries instead. Default: pawl asks the model. */
  summarise?: Summarise<C, S, L>
}

/** The compaction option, completed. */
export interface AgentCompaction extends CompactionPolicy {
  /** The model that writes the summaries; absent if it is the agent's own. */
  readonly model?: ModelChoice
  /** The function that writes the summaries; absent if pawl asks the model. */
  readonly summarise?: Summarise
}

const DEFAULTS = { at: 0.8, keepTurns: 4 } as const

const OPTIONS = options({
  at: where<number>((value) => typeof value === 'number' && value > 0 && value < 1, 'a number above 0 and below 1').optional(),
  keepTurns: integer(1).optional(),
  model: where<ModelChoice>(isModelChoice, "a Claude model's name, an object with generate(), or a function that returns one").optional(),
  summarise: fn<Summarise>('a function that returns a string').optional(),
})

/** The values that `compaction` accepts; `compactionPolicy` checks their members. */
export const COMPACTION = where<true | CompactionOptions>(
  (value) => value === true || isObject(value),
  'true, or { at, keepTurns, model, summarise }',
)

/** The option, completed. @throws the error that `refuse` makes for an invalid member. */
export function compactionPolicy(
  given: true | CompactionOptions | undefined,
  refuse: (problem: string) => Error,
): AgentCompaction | undefined {
  if (given === undefined) return undefined
  const { at, keepTurns, model, summarise } =
    given === true ? {} : checkOptions(options({ compaction: OPTIONS }), { compaction: given }, refuse).compaction
  return { at: at ?? DEFAULTS.at, keepTurns: keepTurns ?? DEFAULTS.keepTurns, ...defined({ model, summarise }) }
}

/**
 * The problem with a model's context window, if it is known before a call; otherwise undefined. `option` is the option that has the model.
 */
export function windowProblem(option: string, choice: ModelChoice, compacts: boolean): string | undefined {
  if (typeof choice === 'function') return undefined
  const [name, declared] = typeof choice === 'string' ? [choice, contextWindowOf(choice)] : [choice.name, choice.contextWindow as unknown]
  if (declared !== undefined && !isContextWindow(declared)) {
    return `the contextWindow of ${option} (${name}) must be an integer from 1, the most tokens that the model accepts, not ${JSON.stringify(declared)}.`
  }
  if (!compacts || declared !== undefined) return undefined
  const how = typeof choice === 'string' ? `anthropic(${JSON.stringify(name)}, { contextWindow })` : 'its contextWindow'
  return `compaction needs the context window of ${option} (${name}), which pawl does not know. Declare it with ${how}.`
}
