// `pawl messages <session>`: the messages of a session, now or at a point of its past.
import type { Command } from 'commander'
import { CliError } from '../errors.ts'
import type { MessageRow } from '../../client/index.ts'
import { textOf } from '../../session/content.ts'
import { type TargetOptions, targetIn, withTarget } from '../target.ts'
import { queryStore, type ListingOptions, listingCommand, pageOf, showAll, showList } from '../queries.ts'
import type { Column } from '../table.ts'

interface MessagesOptions extends ListingOptions, TargetOptions {
  archived?: true
}

const COLUMNS: Column<MessageRow>[] = [
  { name: 'message', of: (row) => row.messageId, whole: true },
  { name: 'turn', of: (row) => (row.run === null ? 'waits' : `${row.run}.${row.turn}`) },
  { name: 'at', of: (row) => row.at },
  { name: 'who', of: (row) => (row.kind === 'tool_results' ? 'tools' : row.kind) },
  { name: 'what', of: whatOf },
]

/** The command. */
export function messagesCommand(): Command {
  const command = listingCommand('messages', 'show the messages of a session, now or at a point of its past')
  return withTarget(command.argument('<session>', "the session's id"))
    .option('--archived', 'messages that a rollback, a restart or pruning has removed from the transcript')
    .action(messages)
}

function messages(session: string, options: MessagesOptions): Promise<void> {
  const target = targetIn(options)
  if (target && options.archived)
    throw new CliError('invalid_usage', '--archived cannot be combined with a point of the past: use one of them.')
  return queryStore(options, async (queries) => {
    if (options.archived) return showAll(options, 'archived messages', await queries.session(session).archivedMessages(), COLUMNS)
    if (target) return showAll(options, 'messages', await queries.session(session).messagesUpTo(target), COLUMNS)
    return showList(options, 'messages', queries.messages({ session, ...pageOf(options) }), COLUMNS)
  })
}

function whatOf({ content }: MessageRow): string {
  if (typeof content === 'string') return content
  const parts = content.map((block) => {
    switch (block.type) {
      case 'text':
        return block.text
      case 'tool_use':
        return `→ ${block.name} ${JSON.stringify(block.input)}`
      case 'tool_result':
        return `${block.is_error ? '✗' : '←'} ${textOf(block.content)}`
      default:
        return `[${block.type}]`
    }
  })
  return parts.join(' ')
}
