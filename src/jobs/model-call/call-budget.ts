// The budget of a model call: before sending the request, it reserves the most that the request can cost; afterwards, it counts the actual
// cost.
import type { Agent } from '../../agent/agent.ts'
import { noPrice, noSearchPrice, priceOfModel } from '../../agent/budget.ts'
import { isModelError } from '../../agent/errors.ts'
import { isWebSearch } from '../../agent/provider-tool.ts'
import { defined } from '../../session/defined.ts'
import type { Model, ModelRequest, ModelResponse } from '../../agent/model.ts'
import { type ModelDelta, textOfDelta } from '../../session/watching/deltas.ts'
import { type BudgetLine, budgetLines, lineAfter } from '../../session/spending/budget.ts'
import { type BudgetRaise, type Cost, costOfUsage, hasBudget, LIMIT_NAMES, type SharedWarning } from '../../session/spending/spend.ts'
import { type DocumentBlock, isDocument, type Message, type Usage } from '../../session/content.ts'
import { documentTokens } from '../../session/transcript/measure.ts'
import { jsonBytes } from '../../session/json.ts'
import type { ModelPrice } from '../../session/spending/model-price.ts'
import { listPrice, type Price, ratesFor } from '../../session/spending/prices.ts'
import {
  brokenCost,
  type CallSize,
  type BudgetRest,
  maxCost,
  type Reservation,
  reservationFor,
  reserve,
  worstRates,
} from '../../session/spending/reservation.ts'
import { PawlError } from '../../session/errors.ts'
import { isUsage } from './check-response.ts'
import type { SharesBudget, ShareRequest } from '../../calls/reads.ts'
import type { JobLink } from '../../calls/jobs.ts'
import type { Prompt } from './prompt.ts'
import type { FoldedSession } from '../session-views.ts'
import { counted } from '../../session/counted.ts'

/** The budget at the time of a call. */
export interface CallBudget {
  /** The limits that apply, with the amounts spent so far. */
  lines: BudgetLine[]
  /** The option in which the agent declares its US dollar limit; absent if it has none. */
  usdLimit?: 'limits' | 'sessionLimits' | 'budget' | 'shared'
  /** The known size of a request that continues the last one: its tokens by this model's count, and the bytes of the new content. */
  known?: { tokens: number; model: string; newBytes: number }
  link: Pick<JobLink, 'reserve' | 'noteReservation' | 'takeShare' | 'settleShare' | 'reportTokens'>
  /** Budgets that the session shares; absent: none apply. */
  shared?: Pick<ShareRequest, 'agent' | 'tags'>
  /** Receives the warnings about them. */
  warnings?: SharedWarning[] | undefined
}

/** The call is not made, because it may exceed the remaining budget or its price is not known. */
export class NotAfforded extends PawlError {
  override readonly name = 'NotAfforded'
  /** Whether the call would be affordable without the assumed costs. */
  readonly isAssumed: boolean
  /** Limits that would allow the call. */
  readonly raise: BudgetRaise[] | undefined

  constructor(
    code: 'budget_exhausted' | 'unpriced_model',
    message: string,
    { isAssumed = false, raise }: { isAssumed?: boolean; raise?: BudgetRaise[] } = {},
  ) {
    super(code, message)
    this.isAssumed = isAssumed
    this.raise = raise
  }
}

/** A budget that the session shares does not allow the call now. */
export class SharedBudgetRefusal extends PawlError {
  override readonly name = 'SharedBudgetRefusal'
  /** It is exhausted, or cannot be read and says to stop then. */
  readonly kind: 'budget_exhausted' | 'archive_unavailable'

  constructor({ refused, isUnknown }: { refused: string; isUnknown?: true }) {
    super(isUnknown ? 'archive_unavailable' : 'budget_exhausted', refused)
    this.kind = isUnknown ? 'archive_unavailable' : 'budget_exhausted'
  }
}

/** `max_tokens` for a Model that does not declare its maximum: no current model refuses this as too large. */
const DEFAULT_MAX_TOKENS = 8_192
/** Tokens that an answer needs in addition to a thinking budget. */
const MIN_ANSWER_TOKENS = 1_024
/** Tokens that providers add to a request with tools. */
const TOOLS_TOKENS = 512
/** Tokens of a provider's description of a tool that it runs. */
const PROVIDER_TOOL_TOKENS = 5_000
/** Tokens that providers may add around the messages of a turn. */
const TURN_TOKENS = 100
/** More than any provider counts for one image. */
const IMAGE_TOKENS = 8_000

/** The budget of the agent's next call; undefined if neither the agent nor the session's caller sets one. `before`: what was spent since the view's last event. */
export function callBudget(
  { limits, sessionLimits }: Agent,
  { state }: Pick<FoldedSession, 'state'>,
  before: readonly Cost[],
  { link, warnings }: { link: CallBudget['link']; warnings?: SharedWarning[] },
  sharesBudget?: SharesBudget,
): CallBudget | undefined {
  const allowance = state.caller?.allowance
  const { agent, tags } = state
  const shared = sharesBudget?.(agent, tags) ? { agent, tags } : undefined
  if (!hasBudget(limits) && !hasBudget(sessionLimits) && !hasBudget(allowance) && !shared) return undefined
  const lines = budgetLines(state, { run: limits, session: sessionLimits }).map((line) => lineAfter(line, before))
  const usdLimit =
    (limits.maxUsd !== undefined && 'limits') ||
    (sessionLimits.maxUsd !== undefined && 'sessionLimits') ||
    (allowance?.maxUsd !== undefined && 'budget') ||
    (shared && 'shared')
  return { lines, ...(usdLimit && { usdLimit }), link, ...(shared && { shared, warnings }) }
}

/** The same for a request that continues the session's last one. */
export function continuing(budget: CallBudget, { state, transcript }: FoldedSession, request: ModelRequest, prompt: Prompt): CallBudget {
  const { lastCall } = state
  const at = transcript.messages.findLastIndex(({ role }) => role === 'assistant')
  const answer = transcript.messages[at]
  const from = request.messages.findLastIndex(({ role }) => role === 'assistant')
  // The session may have been rolled back since, or the provider may have refused to complete the answer.
  if (!lastCall || from < 0 || !answer || transcript.seqs[at] !== lastCall.seq || transcript.refused.has(answer)) return budget
  const newPrompt = jsonBytes(request.system) + (prompt.activeTools ? jsonBytes(request.tools) : 0)
  const newBytes = bytesOf(request.messages.slice(from + 1)) + (prompt.digest === lastCall.promptDigest ? 0 : newPrompt)
  return { ...budget, known: { tokens: lastCall.tokens, model: lastCall.model, newBytes } }
}

export interface BudgetedCall {
  /** The request with the `max_tokens` that the budget allows. */
  request: ModelRequest
  /** Call this when the request is about to be sent. */
  sent(): void
  onDelta(delta: ModelDelta): void
  /** The cost of the call if it fails with this error; undefined if it cost nothing. `response`: what the model returned, if it did. */
  lost(error: unknown, response: ModelResponse | undefined): Cost | undefined
  /** The price of an answer, and its assumed cost if the provider does not report the usage, to be recorded with it. */
  recorded(answer: { usage: Usage; model: string; price?: ModelPrice }, response: ModelResponse): { price?: ModelPrice; spent?: Cost }
}

/**
 * Durably reserves what the call needs: if this process and its orchestrator die, pawl assumes that the call has cost the whole
 * reservation. @throws NotAfforded, AttemptLost.
 */
export async function reserveFor(model: Model, request: ModelRequest, budget: CallBudget): Promise<BudgetedCall> {
  const price = priceOfModel(model, Date.now())
  if (budget.usdLimit && !price) throw new NotAfforded('unpriced_model', noPrice(String(model.name), budget.usdLimit))
  if (budget.usdLimit && price?.webSearch === undefined && request.providerTools?.some(isWebSearch))
    throw new NotAfforded('unpriced_model', noSearchPrice(String(model.name), budget.usdLimit))
  const size = sizeOf(model, request, budget, price)
  const reservation = reserve(size, leftOf(budget.lines))
  if (!reservation) throw exhausted(size, budget.lines)
  const share = await shareOf(budget, reservation)
  // With only a shared budget, the call does not wait for the server: the batch that pays for it has already been set aside.
  if (budget.lines.length > 0) await budget.link.reserve(reservation)
  else budget.link.noteReservation(reservation)
  const { outputTokens } = reservation
  const isLowered = model.maxTokens === undefined || outputTokens < (request.maxTokens ?? model.maxTokens)
  const call = follow(isLowered ? { ...request, maxTokens: outputTokens } : request, reservation, price, budget.link)
  return share ? settling(call, share) : call
}

/** Takes what the call may cost from the budgets that the session shares; returns what settles it. @throws SharedBudgetRefusal. */
async function shareOf({ shared, link, warnings }: CallBudget, reservation: Reservation): Promise<((usd: number) => void) | undefined> {
  if (!shared) return undefined
  const answer = await link.takeShare({ ...shared, usd: maxCost(reservation).usd })
  warnings?.push(...(answer.warnings ?? []))
  if (answer.refused !== undefined) throw new SharedBudgetRefusal(answer)
  return (usd) => link.settleShare(answer.token, usd)
}

/** The same call, which says what it has cost. */
function settling(call: BudgetedCall, settle: (usd: number) => void): BudgetedCall {
  return {
    ...call,
    lost(error, response) {
      const cost = call.lost(error, response)
      settle(cost?.usd ?? 0)
      return cost
    },
    recorded(answer, response) {
      const recorded = call.recorded(answer, response)
      settle(costOfAnswer({ ...answer, ...recorded }).usd)
      return recorded
    },
  }
}

function follow(
  request: ModelRequest,
  reservation: Reservation,
  price: ModelPrice | Price | undefined,
  link: CallBudget['link'],
): BudgetedCall {
  let isSent = false
  let tokensSoFar = 0
  const broken = (): Cost => brokenCost(reservation, tokensSoFar)
  return {
    request,
    sent: () => {
      isSent = true
    },
    onDelta(delta) {
      // A token has at least one byte.
      tokensSoFar += Buffer.byteLength(textOfDelta(delta))
      link.reportTokens(tokensSoFar)
    },
    lost(error, response) {
      if (!isSent) return undefined
      if (response) return isUsage(response.usage) ? costOfUsage(rounded(response.usage), ratesOf(price, response.usage)) : broken()
      return tokensSoFar === 0 && isRejection(error) ? undefined : broken()
    },
    recorded({ usage, model, price: own }, response) {
      const rates = own ?? ratesOf(listPrice(model, Date.now()) ?? price, usage)
      return { ...(rates && { price: rates }), ...(!isUsage(response.usage) && { spent: broken() }) }
    },
  }
}

/** The entry for a call in the price table, if there is one. */
export function listRates(model: string, usage: Usage): ModelPrice | undefined {
  return ratesOf(listPrice(model, Date.now()), usage)
}

/** The cost of an answer that turned out to be unusable. */
export function costOfAnswer({ usage, price, spent }: { usage: Usage; price?: ModelPrice; spent?: Cost }): Cost {
  return spent ?? costOfUsage(usage, price)
}

function ratesOf(price: ModelPrice | Price | undefined, usage: Usage): ModelPrice | undefined {
  if (!price || !('since' in price)) return price
  const { input_tokens, cache_creation_input_tokens, cache_read_input_tokens } = rounded(usage)
  return ratesFor(price, input_tokens + cache_creation_input_tokens + cache_read_input_tokens)
}

function rounded(usage: Usage): Usage {
  const { input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, web_search_requests } = usage
  return {
    ...defined({ web_search_requests }),
    input_tokens: Math.round(input_tokens ?? 0),
    output_tokens: Math.round(output_tokens ?? 0),
    cache_creation_input_tokens: Math.round(cache_creation_input_tokens ?? 0),
    cache_read_input_tokens: Math.round(cache_read_input_tokens ?? 0),
  }
}

function sizeOf(model: Model, request: ModelRequest, { known }: CallBudget, price: ModelPrice | Price | undefined): CallSize {
  const inputTokens = known ? knownTokens(model, request, known) : maxTokensOf(request)
  const maxOutput = request.maxTokens ?? model.maxTokens ?? DEFAULT_MAX_TOKENS
  const minOutput = (model.thinkingTokens ?? 0) + MIN_ANSWER_TOKENS
  const searchUsd = ((price?.webSearch ?? 0) * searchesIn(request)) / 1_000
  return { inputTokens, maxOutput, minOutput, ...worstRates(ratesUpTo(price, inputTokens)), ...(searchUsd > 0 && { searchUsd }) }
}

/** The most web searches that a call is expected to make, if its tool does not limit them. */
const SEARCHES = 10

function searchesIn({ providerTools = [] }: ModelRequest): number {
  const limits = providerTools.filter(isWebSearch).map(({ definition: { max_uses, args } }) => {
    const limit = max_uses ?? (args as { maxUses?: unknown } | undefined)?.maxUses
    return typeof limit === 'number' ? limit : SEARCHES
  })
  return limits.reduce((sum, limit) => sum + limit, 0)
}

/** The prices that may apply to a request of at most `inputTokens`. */
function ratesUpTo(price: ModelPrice | Price | undefined, inputTokens: number): ModelPrice[] {
  if (!price) return []
  return 'since' in price ? [ratesFor(price, 0), ratesFor(price, inputTokens)] : [price]
}

/** A token has at least one byte. */
function maxTokensOf({ system, messages, tools, providerTools = [] }: ModelRequest): number {
  const own = providerTools.length * PROVIDER_TOOL_TOKENS + (tools.length > 0 ? jsonBytes(tools) + TOOLS_TOKENS : 0)
  return jsonBytes(system) + bytesOf(messages) + own
}

function knownTokens({ name }: Model, request: ModelRequest, { tokens, model, newBytes }: NonNullable<CallBudget['known']>): number {
  const isSame = model.startsWith(String(name)) || String(name).startsWith(model)
  // A long session's whole request is not measured for each call.
  if (isSame) return tokens + newBytes + TURN_TOKENS
  // Models count different numbers of tokens for the same text.
  return Math.min(maxTokensOf(request), tokens * 2 + newBytes + TURN_TOKENS)
}

/** Bytes of messages. An image counts as many bytes as it can have tokens, and a document as many as it probably has. */
function bytesOf(messages: readonly Message[]): number {
  let tokens = 0
  const withoutMedia = JSON.stringify(messages, (_, value: unknown) => {
    if (typeof value !== 'object' || value === null) return value
    const { type } = value as { type?: unknown }
    if (type !== 'image' && (!isDocument(value) || value.source.type === 'text')) return value
    tokens += type === 'image' ? IMAGE_TOKENS : documentTokens(value as DocumentBlock)
    return null
  })
  return Buffer.byteLength(withoutMedia) + tokens
}

/** Whether the provider, or the Model itself, has refused the request, which then costs nothing. */
function isRejection(error: unknown): boolean {
  if (!isModelError(error) || error.phase === 'stream') return false
  return error.status !== undefined || !error.retryable || isNotSent(error)
}

/** Errors of a connection that was never established. */
const NOT_SENT = /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT|ERR_TLS_.*|.*CERT.*)$/
const MAX_CAUSES = 6

function isNotSent(error: Error): boolean {
  let at: unknown = error
  for (let depth = 0; at instanceof Error && depth < MAX_CAUSES; depth++, at = at.cause) {
    if (NOT_SENT.test(String((at as { code?: unknown }).code))) return true
  }
  return false
}

function leftOf(lines: readonly BudgetLine[]): BudgetRest {
  const leftIn = (unit: BudgetLine['unit']): number[] => lines.filter((line) => line.unit === unit).map(({ left }) => left)
  const [tokens, usd] = [leftIn('tokens'), leftIn('usd')]
  return { ...(tokens.length > 0 && { tokens: Math.min(...tokens) }), ...(usd.length > 0 && { usd: Math.min(...usd) }) }
}

function exhausted(size: CallSize, lines: readonly BudgetLine[]): NotAfforded {
  const needed = maxCost(reservationFor(size, Math.min(size.minOutput, size.maxOutput)))
  const short = lines.filter(({ left, unit }) => left < needed[unit])
  const [line] = short
  if (!line) return new NotAfforded('budget_exhausted', 'The budget does not allow another model call.')
  const isAssumed = short.every(({ left, assumed, unit }) => left + assumed >= needed[unit])
  const { scope, unit, limit, spent, left, granted } = line
  const amount = (value: number): string => (unit === 'usd' ? `${usdText(value)} USD` : counted(value, 'token'))
  const name = `${scope === 'run' ? 'limits' : 'sessionLimits'}.${LIMIT_NAMES[unit]}`
  const sums = `${amount(spent)} of ${amount(limit)} are spent (${name})`
  const needs = `the next model call needs ${amount(needed[unit])}, and ${amount(Math.max(0, left))} are left`
  if (granted) {
    const what = `${amount(spent)} of ${amount(limit)} are spent; the next model call needs ${amount(needed[unit])}`
    return new NotAfforded('budget_exhausted', `The budget that the caller of this agent granted is exhausted: ${what}. ${RAISE_CALLER}`, {
      isAssumed,
    })
  }
  const raise = raisesOf(short, needed)
  const calls = raise.map((limits) => `session.raise(${JSON.stringify(limits)})`).join(' and ')
  // HTTP clients read this message, too. The CLI derives its suggested commands from `raise`.
  const what = spent > 0 ? `is exhausted: ${sums}; ${needs}` : `does not suffice for a single call: ${needs} (${name})`
  const message = `The budget of the ${scope} ${what}. Raise it: ${calls}.`
  return new NotAfforded('budget_exhausted', message, { isAssumed, raise })
}

const RAISE_CALLER = 'Raise the budget of the session that called it; this session then continues.'

/** A higher limit for each budget that is short: twice the current one, and enough for the next call with some to spare. */
function raisesOf(short: readonly BudgetLine[], needed: Record<BudgetLine['unit'], number>): BudgetRaise[] {
  const raises = new Map<BudgetLine['scope'], BudgetRaise>()
  for (const { scope, unit, limit, spent } of short) {
    const wanted = Math.max(2 * limit, spent + 3 * needed[unit])
    raises.set(scope, { ...raises.get(scope), scope, [LIMIT_NAMES[unit]]: roundedUp(wanted, unit === 'tokens' ? 1 : 1e-6) })
  }
  return [...raises.values()]
}

/** Two significant digits, at least `step` apart. */
function roundedUp(amount: number, step: number): number {
  const digit = Math.max(step, 10 ** (Math.floor(Math.log10(amount)) - 1))
  return Number((Math.ceil(amount / digit) * digit).toPrecision(12))
}

function usdText(usd: number): string {
  return String(Number(usd.toFixed(6)))
}
