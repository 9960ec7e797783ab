// The compaction option of an agent: when a conversation is summarised, by whom, and what stays as it is.
import { checkOptions, fn, integer, options, where } from '../options/check.ts'
import type { CompactionPolicy } from '../session/compaction.ts'
import type { Message, Usage } from '../session/content.ts'
import { defined } from '../session/defined.ts'
import { contextWindowOf, isContextWindow } from './context-windows.ts'
import { isModelChoice, type ModelChoice } from './model-choice.ts'
import type { AgentContext } from './tool.ts'

/** A part of a conversation that is to be summarised. */
// oxlint-disable-next-line typescript/no-explicit-any -- a function for any context fits where any is taken
export interface SummariseInput<C = any, S = any, L = any> {
  /** The messages, oldest first: whole turns, in which every call has its result. */
  readonly messages: readonly Message[]
  /** The summary of everything before them, which the new summary replaces; undefined: nothing is before them. */
  readonly previous: string | undefined
  /** Tokens that the summary should have at most. What exceeds four times as many bytes is cut off. */
  readonly maxTokens: number
  /** Where the session stands. */
  readonly ctx: AgentContext<C, S, L>
  /** Aborts on interrupt, deadline and worker shutdown. */
  readonly signal: AbortSignal
}

/** A summary with what it cost, for a function that calls a model of its own. */
export interface Summary {
  /** The summary. */
  text: string
  /** The model that wrote it, for `token_usage`. */
  model: string
  /** Tokens used. */
  usage: Usage
}

/** Writes a summary. Anything that it throws is a failed attempt; a `ModelError` says whether and when to try again. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export type Summarise<C = any, S = any, L = any> = (input: SummariseInput<C, S, L>) => string | Summary | Promise<string | Summary>

/** See `compaction` of `AgentOptions`. */
// oxlint-disable-next-line typescript/no-explicit-any -- as above
export interface CompactionOptions<C = any, S = any, L = any> {
  /** The share of the model's window from which on the conversation is summarised: above 0 and below 1. Default 0.8. */
  at?: number
  /** The newest turns that stay as they are: an integer from 1. Default 4. */
  keepTurns?: number
  /** The model that writes the summaries. Default: the agent's, with its `fallback`. */
  model?: ModelChoice<C, S, L>
  /** A function of yours that writes them instead. Default: pawl asks the model. */
  summarise?: Summarise<C, S, L>
}

/** The compaction option, completed. */
export interface AgentCompaction extends CompactionPolicy {
  /** The model that writes the summaries; absent: the agent's. */
  readonly model?: ModelChoice
  /** The function that writes them; absent: pawl asks the model. */
  readonly summarise?: Summarise
}

const DEFAULTS = { at: 0.8, keepTurns: 4 } as const

const OPTIONS = options({
  at: where<number>((value) => typeof value === 'number' && value > 0 && value < 1, 'a number above 0 and below 1').optional(),
  keepTurns: integer(1).optional(),
  model: where<ModelChoice>(isModelChoice, "a Claude model's name, an object with generate(), or a function that returns one").optional(),
  summarise: fn<Summarise>('a function that returns text').optional(),
})

/** What `compaction` may be; `compactionPolicy` checks its members. */
export const COMPACTION = where<true | CompactionOptions>(
  (value) => value === true || (typeof value === 'object' && value !== null && !Array.isArray(value)),
  'true, or { at, keepTurns, model, summarise }',
)

/** The option, completed. @throws what `refuse` makes of a member that is not allowed. */
export function compactionPolicy(
  given: true | CompactionOptions | undefined,
  refuse: (problem: string) => Error,
): AgentCompaction | undefined {
  if (given === undefined) return undefined
  const { at, keepTurns, model, summarise } =
    given === true ? {} : checkOptions(options({ compaction: OPTIONS }), { compaction: given }, refuse).compaction
  return { at: at ?? DEFAULTS.at, keepTurns: keepTurns ?? DEFAULTS.keepTurns, ...defined({ model, summarise }) }
}

/** What is wrong with the windows of an agent's models, where they are known before a call; `option` is the model's. */
export function windowProblem(option: string, choice: ModelChoice, compacts: boolean): string | undefined {
  if (typeof choice === 'function') return undefined
  const [name, declared] = typeof choice === 'string' ? [choice, contextWindowOf(choice)] : [choice.name, choice.contextWindow as unknown]
  if (declared !== undefined && !isContextWindow(declared)) {
    return `the contextWindow of ${option} (${name}) is ${JSON.stringify(declared)}: give the tokens that the model has room for, an integer from 1.`
  }
  if (!compacts || declared !== undefined) return undefined
  const how = typeof choice === 'string' ? `anthropic(${JSON.stringify(name)}, { contextWindow })` : 'its contextWindow'
  return `compaction needs to know the window of ${option} (${name}), which pawl does not: declare it with ${how}.`
}
