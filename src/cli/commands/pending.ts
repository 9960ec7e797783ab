// `pawl pending`: the calls of all sessions that wait for a person or a client, longest wait first.
import type { Command } from 'commander'
import type { ListedPending } from '../../client/index.ts'
import {
  queryStore,
  type ListingOptions,
  listingCommand,
  pageOf,
  knownSessionIn,
  type SessionCommandOptions,
  severalOf,
  showList,
  withSession,
} from '../queries.ts'
import type { Column } from '../table.ts'
import { argumentsOf } from './tools.ts'
import { defined } from '../../session/defined.ts'
import type { PendingKind } from '../../store/listed.ts'

interface PendingOptions extends ListingOptions, SessionCommandOptions {
  kind?: string[]
  agent?: string
  tag?: string[]
}

const COLUMNS: Column<ListedPending>[] = [
  { name: 'kind', of: (row) => row.kind },
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'call', of: (row) => row.callId, whole: true },
  { name: 'tool', of: (row) => row.tool },
  { name: 'since', of: (row) => row.waitingSince },
  { name: 'until', of: (row) => row.expiresAt, optional: true },
  { name: 'reason', of: (row) => row.reason, optional: true },
  { name: 'digest', of: (row) => (row.kind === 'approval' ? row.digest : null), whole: true, optional: true },
  { name: 'input', of: argumentsOf },
]

/** The command. */
export function pendingCommand(): Command {
  return withSession(listingCommand('pending', 'list the calls that wait for a person or a client, longest wait first'))
    .option('--kind <kind>', 'only these kinds: approval, client, unknown, separated by commas', severalOf)
    .option('--agent <name>', 'only sessions of this agent')
    .option('--tag <tags>', 'only sessions that have all of these tags, separated by commas', severalOf)
    .action((session: string | undefined, options: PendingOptions) =>
      queryStore(options, async (queries) => {
        const one = await knownSessionIn(queries, session, options)
        return showList(options, 'calls that wait', queries.pending.list({ ...filterOf(options), ...one }), COLUMNS)
      }),
    )
}

function filterOf(options: PendingOptions) {
  const { kind, agent, tag } = options
  return {
    ...pageOf(options),
    ...(kind && { kind: kind as PendingKind[] }),
    ...defined({ agent }),
    ...(tag && { tags: tag }),
  }
}
