// `pawl sessions`: the sessions and their status.
import type { Command } from 'commander'
import type { ListedSession } from '../../client/index.ts'
import type { SessionStatus } from '../../session/events.ts'
import {
  queryStore,
  dollarsOf,
  type ListingOptions,
  listingCommand,
  pageOf,
  severalOf,
  showList,
  spanOf,
  type SpanCommandOptions,
  withSpan,
} from '../queries.ts'
import type { Column } from '../table.ts'
import { defined } from '../../session/defined.ts'

interface SessionsOptions extends ListingOptions, SpanCommandOptions {
  status?: string[]
  paused?: true
  agent?: string
  tag?: string[]
}

const COLUMNS: Column<ListedSession>[] = [
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'agent', of: (row) => row.agent },
  { name: 'status', of: statusOf, status: true },
  { name: 'plan', of: ({ plan }) => plan && `${plan.done}/${plan.steps}`, right: true, optional: true },
  { name: 'runs', of: (row) => row.run, right: true, optional: true },
  { name: 'turns', of: (row) => row.turns, right: true, optional: true },
  { name: 'usd', of: (row) => dollarsOf(row.usd), right: true },
  { name: 'created', of: (row) => row.createdAt, optional: true },
  { name: 'updated', of: (row) => row.updatedAt },
  { name: 'tags', of: (row) => row.tags.join(', ') },
]

/** The command. */
export function sessionsCommand(): Command {
  return withSpan(listingCommand('sessions', 'list sessions, newest first'))
    .option(
      '--status <status>',
      'only sessions with one of these statuses: idle, running, waiting, error, closed, separated by commas',
      severalOf,
    )
    .option('--paused', 'only sessions that are paused')
    .option('--agent <name>', 'only sessions of this agent')
    .option('--tag <tags>', 'only sessions that have all of these tags, separated by commas', severalOf)
    .action((options: SessionsOptions) =>
      queryStore(options, (queries) => showList(options, 'sessions', queries.sessions.list(filterOf(options)), COLUMNS)),
    )
}

function statusOf({ status, error, paused }: ListedSession): string {
  return [error ? `${status} ${error.code}` : status, ...(paused ? ['paused'] : [])].join(', ')
}

function filterOf(options: SessionsOptions) {
  const { status, paused, agent, tag } = options
  return {
    ...pageOf(options),
    ...spanOf(options),
    ...(status && { status: status as SessionStatus[] }),
    ...defined({ agent, paused }),
    ...(tag && { tags: tag }),
  }
}
