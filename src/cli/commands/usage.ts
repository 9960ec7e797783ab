// `pawl usage`: sums of tokens and US dollars.
import { type Command, Option } from 'commander'
import type { UsageBy, UsageSum } from '../../client/index.ts'
import {
  askStore,
  dollarsOf,
  type ListingOptions,
  listingCommand,
  pageOf,
  sessionIn,
  type SessionOptions,
  showList,
  spanOf,
  type SpanOptions,
  withSession,
  withSpan,
} from '../asking.ts'
import type { Column } from '../table.ts'

interface UsageOptions extends ListingOptions, SessionOptions, SpanOptions {
  by: UsageBy
}

const columnsBy = (by: UsageBy): Column<UsageSum>[] => [
  { name: by, of: (row) => row.key },
  { name: 'calls', of: (row) => row.calls, right: true },
  { name: 'input', of: (row) => row.usage.input_tokens, right: true },
  { name: 'output', of: (row) => row.usage.output_tokens, right: true },
  { name: 'cache write', of: (row) => row.usage.cache_creation_input_tokens, right: true },
  { name: 'cache read', of: (row) => row.usage.cache_read_input_tokens, right: true },
  { name: 'usd', of: (row) => dollarsOf(row.usd), right: true },
  { name: 'without price', of: (row) => row.unpriced },
]

/** The command. */
export function usageCommand(): Command {
  return withSpan(withSession(listingCommand('usage', 'show sums of tokens and US dollars')))
    .addOption(new Option('--by <what>', 'how to group them').choices(['agent', 'day', 'model', 'session']).default('agent'))
    .action((session: string | undefined, options: UsageOptions) => {
      const { by } = options
      const list = { by, ...pageOf(options), ...spanOf(options), ...sessionIn(session, options) }
      return askStore(options, (asking) => showList(options, asking.usage(list), columnsBy(by)))
    })
}
