// `pawl usage`: sums of tokens and US dollars; for one session, also what is left of its budgets.
import { type Command, Option } from 'commander'
import { PawlError } from '../../session/errors.ts'
import type { SessionBudget, UsageBy, UsageSum } from '../../client/index.ts'
import {
  queryStore,
  dollarsOf,
  type ListingOptions,
  listingCommand,
  pageOf,
  sessionIn,
  type SessionCommandOptions,
  showAll,
  showList,
  spanOf,
  type SpanCommandOptions,
  withSession,
  withSpan,
} from '../queries.ts'
import { SUMS } from '../../client/queries/list-options.ts'
import { defined } from '../../session/defined.ts'
import { atOption } from '../options.ts'
import { liveOrStored } from '../live-or-stored.ts'
import type { Column } from '../table.ts'

interface UsageCommandOptions extends ListingOptions, SessionCommandOptions, SpanCommandOptions {
  by: UsageBy
  at?: number
}

const columnsBy = (by: UsageBy): Column<UsageSum>[] => [
  { name: by, of: (row) => row.key },
  { name: 'calls', of: (row) => row.calls, right: true },
  { name: 'input', of: (row) => row.usage.input_tokens, right: true },
  { name: 'output', of: (row) => row.usage.output_tokens, right: true },
  { name: 'cache write', of: (row) => row.usage.cache_creation_input_tokens, right: true, optional: true },
  { name: 'cache read', of: (row) => row.usage.cache_read_input_tokens, right: true, optional: true },
  { name: 'usd', of: (row) => dollarsOf(row.usd), right: true },
  { name: 'without price', of: (row) => row.unpriced },
]

/** The command. */
export function usageCommand(): Command {
  return withSpan(withSession(listingCommand('usage', 'show sums of tokens and US dollars')))
    .addOption(new Option('--by <what>', 'how to group them; turn: the turns of one session').choices([...SUMS]).default('agent'))
    .addOption(atOption('the budgets'))
    .action(async (session: string | undefined, options: UsageCommandOptions) => {
      const { by } = options
      const one = sessionIn(session, options)
      const list = { by, ...pageOf(options), ...spanOf(options), ...one }
      const stored = await queryStore(options, async (queries) => {
        await showList(options, 'usage', queries.usage(list), columnsBy(by))
        return one.session === undefined ? [] : queries.session(one.session).budgets(options.at).catch(unlessUnknown)
      })
      if (one.session !== undefined && stored.length > 0) await showBudgets(one.session, options)
    })
}

const BUDGETS: Column<SessionBudget>[] = [
  { name: 'budget of', of: (row) => row.scope },
  { name: 'limit', of: (row) => amountOf(row, row.limit), right: true },
  { name: 'spent', of: (row) => amountOf(row, row.spent), right: true },
  { name: 'reserved', of: (row) => (row.reserved === null ? null : amountOf(row, row.reserved)), right: true },
  { name: 'left', of: (row) => amountOf(row, row.left), right: true },
  { name: 'assumed', of: (row) => (row.assumed > 0 ? amountOf(row, row.assumed) : null), right: true },
]

/** A session without rows has no usage either. */
function unlessUnknown(error: unknown): SessionBudget[] {
  if (error instanceof PawlError && error.code === 'session_not_found') return []
  throw error
}

/** Prints what is left of the session's budgets. Only Temporal knows the reserved amounts. */
async function showBudgets(session: string, options: UsageCommandOptions): Promise<void> {
  const budgets = await liveOrStored(
    options,
    (pawl) => pawl.session(session).budgets(defined({ at: options.at })),
    (queries) => queries.session(session).budgets(options.at),
  )
  showAll(options, 'budgets', budgets, BUDGETS)
}

const amountOf = ({ unit }: SessionBudget, value: number): string | null => (unit === 'usd' ? dollarsOf(value) : `${value} tokens`)
