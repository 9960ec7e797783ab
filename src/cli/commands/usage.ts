// `pawl usage`: sums of tokens and US dollars; for one session, also what is left of its budgets.
import { type Command, Option } from 'commander'
import { PawlError } from '../../session/errors.ts'
import type { StoreQueries } from '../../client/queries/queries.ts'
import { CliError } from '../errors.ts'
import type { SessionBudget, UsageSum } from '../../client/index.ts'
import {
  queryStore,
  dollarsOf,
  type ListingOptions,
  listingCommand,
  pageOf,
  knownSessionIn,
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
import type { UsageBy } from '../../store/sums.ts'
import { counted } from '../../session/counted.ts'

interface UsageCommandOptions extends ListingOptions, SessionCommandOptions, SpanCommandOptions {
  by: UsageBy
  at?: number
  tree?: true
}

const columnsBy = (by: UsageBy): Column<UsageSum>[] => [
  { name: by, of: (row) => row.key },
  { name: 'calls', of: (row) => row.calls, right: true },
  { name: 'input', of: (row) => row.usage.input_tokens, right: true },
  { name: 'output', of: (row) => row.usage.output_tokens, right: true },
  { name: 'cache write', of: (row) => row.usage.cache_creation_input_tokens, right: true, optional: true },
  { name: 'cache read', of: (row) => row.usage.cache_read_input_tokens, right: true, optional: true },
  { name: 'searches', of: (row) => row.usage.web_search_requests ?? 0, right: true, optional: true },
  { name: 'usd', of: (row) => dollarsOf(row.usd), right: true },
  { name: 'without price', of: (row) => row.unpriced },
]

export function usageCommand(): Command {
  return withSpan(withSession(listingCommand('usage', 'show sums of tokens and US dollars')))
    .addOption(new Option('--by <what>', 'how to group them; turn: the turns of one session').choices([...SUMS]).default('agent'))
    .addOption(atOption('the sums and budgets of a session'))
    .option('--tree', 'with the sessions that answer agent calls of the one that is named')
    .action(async (session: string | undefined, options: UsageCommandOptions) => {
      const { by } = options
      if (options.at !== undefined && sessionIn(session, options).session === undefined)
        throw new CliError('invalid_usage', 'A checkpoint belongs to one session. Name the session, too.')
      const id = await queryStore(options, async (queries) => {
        const one = await knownSessionIn(queries, session, options)
        const list = {
          by,
          ...pageOf(options),
          ...(await spanUntil(queries, one.session, options)),
          ...one,
          ...defined({ tree: options.tree }),
        }
        await showList({ ...options, ...one }, 'usage', queries.usage(list), columnsBy(by))
        // Budgets have no past, except at checkpoints.
        if (one.session === undefined || (options.at === undefined && options.until !== undefined)) return undefined
        const budgets = await queries.session(one.session).budgets(options.at).catch(unlessUnknown)
        return budgets.length > 0 ? one.session : undefined
      })
      if (id !== undefined) await showBudgets(id, options)
    })
}

/** The time span, which ends at the checkpoint if one is named. The moment of the checkpoint is included. */
async function spanUntil(queries: StoreQueries, session: string | undefined, options: UsageCommandOptions): Promise<SpanCommandOptions> {
  const { at, until } = options
  if (at === undefined || session === undefined) return spanOf(options)
  const checkpoint = (await queries.session(session).checkpoints()).find(({ version }) => version === at)
  if (!checkpoint) {
    // Throws an error that lists the existing checkpoints.
    await queries.session(session).budgets(at)
    return spanOf(options)
  }
  const end = new Date(checkpoint.createdAt.getTime() + 1)
  return spanOf({ ...options, until: until && until < end ? until : end })
}

const BUDGETS: Column<SessionBudget>[] = [
  { name: 'budget of', of: (row) => row.scope },
  { name: 'limit', of: (row) => amountOf(row, row.limit), right: true },
  { name: 'spent', of: (row) => amountOf(row, row.spent), right: true },
  { name: 'reserved', of: (row) => (row.reserved === null ? null : amountOf(row, row.reserved)), right: true },
  { name: 'left', of: (row) => amountOf(row, row.left), right: true },
  { name: 'assumed', of: (row) => (row.assumed > 0 ? amountOf(row, row.assumed) : null), right: true },
]

/** A session without rows, or one that was pruned or erased, has no usage either. */
function unlessUnknown(error: unknown): SessionBudget[] {
  if (error instanceof PawlError && (error.code === 'session_not_found' || error.code === 'events_gone')) return []
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

const amountOf = ({ unit }: SessionBudget, value: number): string | null => (unit === 'usd' ? dollarsOf(value) : counted(value, 'token'))
