// What was spent and what may still be spent, in tokens and US dollars.
import type { Usage } from '../content.ts'
import { exactUsd, type ModelPrice, usdOf } from './model-price.ts'

/** A cost: tokens of model calls, and US dollars. */
export interface Cost {
  /** Input and output of model calls, cached or not. */
  tokens: number
  /** US dollars, for calls at a known price only. */
  usd: number
  /** Set if the cost cannot be known; the amounts are then the most that it can be. */
  assumed?: true
}

/** What a run or a session has spent so far. It only grows, because a rollback does not undo it. */
export interface Spend {
  /** Input and output tokens of model calls, cached or not, and those that tools and hooks reported. */
  tokens: number
  /** US dollars: of model calls with a recorded price, which all calls under a budget have, and what tools and hooks reported. */
  usd: number
  /** How much of both is assumed, because an attempt died and its cost was lost with it. Absent: nothing. */
  assumed?: { tokens: number; usd: number }
}

/** The budget of a run or a session; an absent member means no limit. */
export interface Budget {
  /** Input and output tokens of all model calls. */
  maxTotalTokens?: number
  /** US dollars. */
  maxUsd?: number
}

/** Four fifths of a budget that sessions share are spent; one session records that. `budget`: its id. */
export interface SharedWarning {
  budget: string
  limit: number
  spent: number
}

/** Whose budget it is. */
export type BudgetScope = 'run' | 'session'

/** Higher limits that let a session continue after it exhausted its budget. */
export interface BudgetRaise {
  /** The budget whose limit is to be raised. */
  scope: BudgetScope
  /** The new limit in US dollars. */
  maxUsd?: number
  /** The new limit in tokens. */
  maxTotalTokens?: number
}

/** How a budget is counted. */
export type BudgetUnit = 'tokens' | 'usd'

/** What a run passes on to its restart. */
export interface RunBudget {
  /** What it had spent. */
  spend?: Spend
  /** Its limits, as raised. */
  raised?: Budget
  /** The limits for which a warning was recorded. */
  warned?: Partial<Record<BudgetUnit, number>>
}

/** The names of the limits, as agents declare them. */
export const LIMIT_NAMES = { tokens: 'maxTotalTokens', usd: 'maxUsd' } as const satisfies Record<BudgetUnit, keyof Budget>

/** More dollars than any run is worth; a higher limit must be in another unit. */
const MAX_USD = 1_000_000

/** Whether a value can be a limit in US dollars. */
export function isUsdLimit(value: unknown): value is number {
  return typeof value === 'number' && value > 0 && value <= MAX_USD
}

/** Whether the budget has any limit. */
export function hasBudget({ maxTotalTokens, maxUsd }: Budget = {}): boolean {
  return maxTotalTokens !== undefined || maxUsd !== undefined
}

/** The amount spent so far, plus a cost. */
export function addSpend(to: Spend | undefined, cost: Cost): Spend {
  const { tokens, usd, assumed } = to ?? { tokens: 0, usd: 0 }
  const more = cost.assumed ? { tokens: cost.tokens, usd: cost.usd } : undefined
  const sum = more ? { tokens: (assumed?.tokens ?? 0) + more.tokens, usd: exactUsd((assumed?.usd ?? 0) + more.usd) } : assumed
  return { tokens: tokens + cost.tokens, usd: exactUsd(usd + cost.usd), ...(sum && { assumed: sum }) }
}

/** The cost of an answer, by the usage that its provider reports. */
export function costOfUsage(usage: Usage, price: ModelPrice | undefined): Cost {
  return { tokens: tokensIn(usage), usd: price ? usdOf(price, usage) : 0 }
}

/** All tokens of a call. */
export function tokensIn(usage: Usage): number {
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens } = usage
  return input_tokens + output_tokens + cache_creation_input_tokens + cache_read_input_tokens
}
