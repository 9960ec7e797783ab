// `pawl errors`: failed attempts and failed runs.
import type { Command } from 'commander'
import type { ListedError } from '../../client/index.ts'
import {
  queryStore,
  type ListingOptions,
  listingCommand,
  pageOf,
  knownSessionIn,
  type SessionCommandOptions,
  showList,
  spanOf,
  type SpanCommandOptions,
  withSession,
  withSpan,
} from '../queries.ts'
import type { Column } from '../table.ts'
import { defined } from '../../session/defined.ts'

interface ErrorsOptions extends ListingOptions, SessionCommandOptions, SpanCommandOptions {
  context?: string
}

const COLUMNS: Column<ListedError>[] = [
  { name: 'at', of: (row) => row.at },
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'turn', of: (row) => (row.run === null ? null : [row.run, row.turn].filter(Boolean).join('.')) },
  { name: 'context', of: contextOf },
  { name: 'attempt', of: (row) => row.attempt, right: true, optional: true },
  { name: 'retryable', of: (row) => (row.retryable ? 'yes' : 'no'), optional: true },
  { name: 'call', of: (row) => row.callId, whole: true, optional: true },
  { name: 'place', of: placeOf, whole: true, optional: true },
  { name: 'error', of: (row) => `${row.code ?? row.class}: ${row.message}` },
]

/** What failed: the tool, or the model and whether it had begun to answer. */
function contextOf({ context, model, phase }: ListedError): string {
  return [context, model, phase === 'stream' && 'in its answer'].filter(Boolean).join(' ')
}

/** Where the exception was thrown: the first frame of its stack. */
function placeOf({ stack }: ListedError): string | null {
  return stack?.split('\n', 1)[0]?.replace(/^\s*at /, '') ?? null
}

/** The command. */
export function errorsCommand(): Command {
  const command = listingCommand('errors', 'list failed attempts and failed runs (without an attempt number), newest first')
  return withSpan(withSession(command))
    .option('--context <context>', "only errors of 'model', 'tool:<name>', 'run', 'compaction' or 'checkpoint'")
    .action((session: string | undefined, options: ErrorsOptions) => {
      const { context } = options
      return queryStore(options, async (queries) => {
        const filter = { ...(await knownSessionIn(queries, session, options)), ...defined({ context }) }
        return showList(options, 'errors', queries.errors({ ...pageOf(options), ...spanOf(options), ...filter }), COLUMNS)
      })
    })
}
