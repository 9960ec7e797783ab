// Budgets as agents declare them, and the prices that a budget in US dollars needs.
import { integer, where } from '../options/check.ts'
import { type Budget, isUsdLimit, LIMIT_NAMES } from '../session/spending/spend.ts'
import { type ModelPrice, modelPrice } from '../session/spending/model-price.ts'
import { listPrice, type Price } from '../session/spending/prices.ts'
import type { ModelChoice } from './model-choice.ts'
import { DeclarationError } from './errors.ts'
import type { Model } from './model.ts'
import { isRunBy, isWebSearch, type ProviderTool } from './provider-tool.ts'

/** The members of a budget. */
export const BUDGET = {
  maxTotalTokens: integer(1).optional(),
  maxUsd: where<number>(isUsdLimit, 'an amount in US dollars, above 0 and at most 1,000,000').optional(),
}

/** The price of a model: the one that it declares, or the one in the price table. Undefined if neither is known. */
export function priceOfModel({ name, price }: Pick<Model, 'name' | 'price'>, at: number): ModelPrice | Price | undefined {
  return modelPrice(price) ?? listPrice(String(name), at)
}

/**
 * Refuses a budget in US dollars if a model's price is unknown. If a function chooses the model, pawl checks at the model call instead.
 * @throws DeclarationError `no_price`.
 */
export function refuseUnpriced(
  agent: string,
  models: readonly ModelChoice[],
  budgets: Record<'limits' | 'sessionLimits', Budget>,
  tools: readonly ProviderTool[],
): void {
  const limit = (['limits', 'sessionLimits'] as const).find((name) => budgets[name].maxUsd !== undefined)
  if (!limit) return
  for (const model of models) {
    if (typeof model === 'function') continue
    const known = typeof model === 'string' ? { name: model } : model
    const price = priceOfModel(known, Date.now())
    if (!price) throw new DeclarationError('no_price', `Agent "${agent}": ${noPrice(known.name, limit)}`)
    const searches = tools.some((tool) => isWebSearch(tool) && isRunBy(model, tool) === true)
    if (searches && price.webSearch === undefined) {
      throw new DeclarationError('no_price', `Agent "${agent}": ${noSearchPrice(known.name, limit)}`)
    }
  }
}

/** The message for a model without a known price: what is wrong, and what to do about it. */
export function noPrice(model: string, limit: string): string {
  const name = limit === 'shared' ? 'A budget that the session shares' : `${limit}.${LIMIT_NAMES.usd}`
  const price = 'price: { input, output, cacheRead, cacheWrite }'
  return `${name} needs the price of every model, but the price of "${model}" is unknown. Declare it in US dollars per million tokens (the option \`${price}\` of anthropic() or aiSdk(), or \`price\` of your own Model), or limit tokens instead (${LIMIT_NAMES.tokens}).`
}

/** The message for a model whose provider searches the web at an unknown price. */
export function noSearchPrice(model: string, limit: string): string {
  const name = `${limit}.${LIMIT_NAMES.usd}`
  return `${name} needs the price of the web searches that the provider of "${model}" runs, but it is unknown. Declare it in US dollars per thousand searches (\`webSearch\` in the option \`price\`; 0 if they are free), or limit tokens instead (${LIMIT_NAMES.tokens}).`
}
