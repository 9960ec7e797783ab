// Budgets over many sessions: sets, lists and removes them.
import { checkOptions, oneOf, options, text, where } from '../../options/check.ts'
import { ianaTimeZone } from '../../options/shared.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { isAgentName } from '../../session/protocol/protocol.ts'
import { isUsdLimit } from '../../session/spending/spend.ts'
import type { SharedBudget } from '../../store/shared-budgets.ts'
import type { Store } from '../../store/index.ts'
import { storeOr } from '../no-store.ts'
import type { QueriesOptions } from '../queries/queries-options.ts'
import { openStoreAlone } from './store-alone.ts'

/** A budget to set. */
export interface SharedBudgetOptions {
  /** It counts sessions with this tag, such as `tenant:acme`. Either `tag` or `agent`. */
  tag?: string
  /** It counts sessions of this agent. */
  agent?: string
  /** US dollars in each period: above 0, at most 1,000,000. */
  maxUsd: number
  /** The period: a calendar day or month. */
  per: 'day' | 'month'
  /** The time zone in which a day begins, such as `Europe/Berlin`. Default `UTC`. */
  timeZone?: string
  /** While the side store is unavailable: `continue` and count later, or `stop` before the next model call. Default `continue`. */
  onOutage?: 'continue' | 'stop'
  /** Who sets it. Default: not recorded. */
  by?: string
}

/** Budgets that sessions share. Every method rejects with `StoreError` (`no_store`, `store_unavailable`, …). */
export interface SharedBudgets {
  /** Sets the budget of a tag or an agent for each day or month; replaces the earlier one. @throws InvalidOptionError `invalid_option`. */
  set(options: SharedBudgetOptions): Promise<SharedBudget>
  /** All of them, with what is spent in the current period. */
  list(): Promise<SharedBudget[]>
  /** Removes one by its id. Returns whether there was one. @throws InvalidOptionError `invalid_option`. */
  remove(id: string): Promise<boolean>
}

const TERMS = options({
  tag: where<string>((tag) => typeof tag === 'string' && tag !== '' && tag.length <= 200, 'a tag of 1 to 200 characters').optional(),
  agent: where<string>(isAgentName, 'the name of an agent').optional(),
  maxUsd: where<number>(isUsdLimit, 'a number of US dollars above 0, at most 1,000,000'),
  per: oneOf('day', 'month'),
  timeZone: ianaTimeZone().optional(),
  onOutage: oneOf('continue', 'stop').optional(),
  by: text().optional(),
})
const BUDGET = options({ id: text('the id of a budget, as list() returns it') })

export function sharedBudgetsOf(store: Store | undefined): SharedBudgets {
  const budgets = () => storeOr(store).budgets
  return {
    async set(given) {
      const { tag = null, agent = null, maxUsd, per, timeZone = 'UTC', onOutage = 'continue', by } = checkOptions(TERMS, given)
      if ((tag === null) === (agent === null)) throw new InvalidOptionError('A shared budget needs either `tag` or `agent`.')
      const id = tag === null ? `${per} agent ${agent}` : `${per} tag ${tag}`
      return budgets().set({ id, tag, agent, maxUsd, per, timeZone, onOutage }, by)
    },
    list: () => budgets().list(),
    remove: async (id) => budgets().remove(checkOptions(BUDGET, { id }).id),
  }
}

/**
 * Opens a store for its shared budgets alone, without Temporal.
 * @throws InvalidOptionError `invalid_option`; StoreError `no_store`, `invalid_store_options`, `invalid_postgres_url`.
 */
export function openSharedBudgets(given: QueriesOptions = {}): SharedBudgets & { close(): Promise<void> } {
  const store = openStoreAlone(given, 'shared budgets')
  return { ...sharedBudgetsOf(store), close: () => store.close() }
}
