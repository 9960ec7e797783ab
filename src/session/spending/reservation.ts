// Reservations: the most that a model call can cost, reserved before its request is sent, and the cost to assume if it never ends.
import type { Cost } from './spend.ts'
import { exactUsd, type ModelPrice } from './model-price.ts'

/** The amount reserved for one model call. */
export interface Reservation {
  /** The most input tokens that it can have. */
  inputTokens: number
  /** The most output tokens: its `max_tokens`. */
  outputTokens: number
  /** The cost of that input in US dollars, and of the web searches that the provider may run; 0 without a price. */
  inputUsd: number
  /** The cost of that output in US dollars; 0 without a price. */
  outputUsd: number
}

/** What is known about a call before it is made. */
export interface CallSize {
  /** The most input tokens that it can have. */
  inputTokens: number
  /** The `max_tokens` that the call would have without a budget. */
  maxOutput: number
  /** The `max_tokens` below which pawl does not make the call. */
  minOutput: number
  /** The highest rate of its input, in US dollars per million tokens: cached or not. */
  inputRate: number
  /** The highest rate of its output, in US dollars per million tokens. */
  outputRate: number
  /** The cost of the web searches that it may make, in US dollars. Default 0. */
  searchUsd?: number
}

/** What a budget leaves for a call; an absent member means no limit. */
export interface BudgetRest {
  tokens?: number
  usd?: number
}

/** Output tokens that may still be in transit from the provider when a call breaks off. */
const UNSEEN_TOKENS = 256

/** The highest rates of a price. */
export function worstRates(prices: readonly ModelPrice[]): Pick<CallSize, 'inputRate' | 'outputRate'> {
  const inputs = prices.flatMap(({ input, cacheRead = input, cacheWrite = input }) => [input, cacheRead, cacheWrite])
  return { inputRate: Math.max(0, ...inputs), outputRate: Math.max(0, ...prices.map(({ output }) => output)) }
}

/** The reservation with this many output tokens. */
export function reservationFor({ inputTokens, inputRate, outputRate, searchUsd = 0 }: CallSize, outputTokens: number): Reservation {
  const inputUsd = exactUsd(usdAt(inputRate, inputTokens) + searchUsd)
  return { inputTokens, outputTokens, inputUsd, outputUsd: usdAt(outputRate, outputTokens) }
}

/** Reserves what the budget affords; undefined if that is less than the call needs. */
export function reserve(call: CallSize, left: BudgetRest): Reservation | undefined {
  const { inputTokens, maxOutput, outputRate } = call
  const minTokens = Math.min(call.minOutput, maxOutput)
  if (!fits(reservationFor(call, minTokens), left)) return undefined
  let outputTokens = Math.min(maxOutput, Math.floor((left.tokens ?? Number.POSITIVE_INFINITY) - inputTokens))
  if (left.usd !== undefined && outputRate > 0) {
    const forOutput = left.usd - usdAt(call.inputRate, inputTokens) - (call.searchUsd ?? 0)
    outputTokens = Math.min(outputTokens, Math.floor((forOutput * 1_000_000) / outputRate))
  }
  // Sums of dollars are rounded, so the budget may afford a token or two less.
  while (outputTokens > minTokens && !fits(reservationFor(call, outputTokens), left)) outputTokens -= 1
  return reservationFor(call, Math.max(minTokens, outputTokens))
}

/** Whether the budget can afford the reservation. */
export function fits(reservation: Reservation, { tokens = Number.POSITIVE_INFINITY, usd = Number.POSITIVE_INFINITY }: BudgetRest): boolean {
  const cost = maxCost(reservation)
  return cost.tokens <= tokens && cost.usd <= usd
}

/** The most that the call can cost. */
export function maxCost({ inputTokens, outputTokens, inputUsd, outputUsd }: Reservation): Cost {
  return { tokens: inputTokens + outputTokens, usd: exactUsd(inputUsd + outputUsd) }
}

/**
 * The most that a call can have cost if it broke off after `tokensSoFar` output tokens: its input, the output seen, and the output in transit.
 */
export function brokenCost(reservation: Reservation, tokensSoFar: number): Cost {
  const { inputTokens, outputTokens, inputUsd, outputUsd } = reservation
  const seen = Math.min(outputTokens, tokensSoFar + UNSEEN_TOKENS)
  const ofOutput = outputTokens > 0 ? (outputUsd * seen) / outputTokens : 0
  return { tokens: inputTokens + seen, usd: exactUsd(inputUsd + ofOutput) }
}

/** The assumed cost of a call if all reports of it were lost: the whole reservation. */
export function assumedCost(reservation: Reservation): Cost {
  return { ...maxCost(reservation), assumed: true }
}

/** The cost in US dollars, rounded up so that a reservation is never too small. */
function usdAt(rate: number, tokens: number): number {
  return Math.ceil(exactUsd((rate * tokens) / 1_000_000) * 1e9 - 1e-3) / 1e9
}
