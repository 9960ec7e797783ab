// `pawl checkpoints <session>`: points for rollbacks and forks.
import type { Command } from 'commander'
import type { ListedCheckpoint } from '../../client/index.ts'
import { dollarsOf, queryStore, type ListingOptions, listingCommand, pageOf, showAll, showList } from '../queries.ts'
import type { Column } from '../table.ts'

const COLUMNS: Column<ListedCheckpoint>[] = [
  { name: 'version', of: (row) => row.version, right: true },
  { name: 'turn', of: (row) => (row.run === null ? null : [row.run, row.turn].filter(Boolean).join('.')) },
  { name: 'seq', of: (row) => row.seq, right: true },
  { name: 'created', of: (row) => row.createdAt, optional: true },
  { name: 'plan', of: ({ plan }) => plan && `${plan.done}/${plan.steps}`, right: true, optional: true },
  { name: 'usd', of: ({ spent }) => dollarsOf(spent && spent.usd > 0 ? spent.usd : null), right: true, optional: true },
  { name: 'last message', of: (row) => row.lastMessageId },
  { name: 'archived', of: (row) => (row.archivedSeq === null ? 'no' : `at ${row.archivedSeq}`) },
  { name: 'reasons', of: ({ reasons, by }) => `${reasons.join(', ')}${by === null ? '' : ` (${by})`}` },
]

/** The command. */
export function checkpointsCommand(): Command {
  return listingCommand('checkpoints', "list a session's checkpoints, newest first; a fork may begin at an archived one, too")
    .argument('<session>', "the session's id")
    .option('--latest', 'only the newest one that is not archived')
    .action((session: string, options: ListingOptions & { latest?: true }) =>
      queryStore(options, async (queries) => {
        if (!options.latest) return showList(options, 'checkpoints', queries.checkpoints({ session, ...pageOf(options) }), COLUMNS)
        const latest = await queries.session(session).latestCheckpoint()
        return showAll(options, 'checkpoints', latest ? [latest] : [], COLUMNS)
      }),
    )
}
