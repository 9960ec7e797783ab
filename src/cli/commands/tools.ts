// `pawl tools`: tool calls, for example all with an unknown outcome.
import { effectText } from '../../session/built-in-tools/reserved.ts'
import type { Command } from 'commander'
import type { ListedToolCall } from '../../client/index.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import {
  queryStore,
  type ListingOptions,
  listingCommand,
  pageOf,
  knownSessionIn,
  type SessionCommandOptions,
  severalOf,
  showList,
  spanOf,
  type SpanCommandOptions,
  withSession,
  withSpan,
} from '../queries.ts'
import type { Column } from '../table.ts'
import { defined } from '../../session/defined.ts'

interface ToolsOptions extends ListingOptions, SessionCommandOptions, SpanCommandOptions {
  status?: string[]
  tool?: string
  key?: string
  effectId?: string
}

/** The columns of tool calls, here and in `pawl show`. */
export const CALL_COLUMNS: Column<ListedToolCall>[] = [
  { name: 'issued', of: (row) => row.issuedAt },
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'call', of: (row) => row.callId, whole: true },
  { name: 'tool', of: (row) => row.tool },
  { name: 'effect', of: effectText, optional: true },
  { name: 'status', of: (row) => row.status, status: true },
  { name: 'attempt', of: (row) => row.attempt, right: true, optional: true },
  { name: 'effect id', of: (row) => row.effectId, optional: true },
  { name: 'arguments, outcome', of: (row) => `${argumentsOf(row)}${outcomeOf(row)}` },
]

/** The command. */
export function toolsCommand(): Command {
  return withSpan(withSession(listingCommand('tools', 'list tool calls, newest first')))
    .option(
      '--status <status>',
      'only calls with one of these statuses, such as unknown, running, failed or awaiting_approval, separated by commas',
      severalOf,
    )
    .option('--tool <name>', 'only calls of this tool')
    .option('--key <key>', 'only calls with this idempotency key')
    .option('--effect-id <id>', "only the call whose effect has this id in the outside world, such as a refund's id")
    .action((session: string | undefined, options: ToolsOptions) =>
      queryStore(options, async (queries) => {
        const one = await knownSessionIn(queries, session, options)
        return showList(options, 'tool calls', queries.toolCalls({ ...filterOf(options), ...one }), CALL_COLUMNS)
      }),
    )
}

function filterOf(options: ToolsOptions) {
  const { status, tool, key, effectId } = options
  return {
    ...pageOf(options),
    ...spanOf(options),
    ...(status && { status: status as ToolCallStatus[] }),
    ...defined({ tool, key, effectId }),
  }
}

/** The arguments, and the model's own if a hook or a person has changed them. */
export function argumentsOf({ input, modelInput }: Pick<ListedToolCall, 'input' | 'modelInput'>): string {
  const own = modelInput === null ? '' : ` (the model's own: ${JSON.stringify(modelInput)})`
  return `${JSON.stringify(input)}${own}`
}

function outcomeOf({ error, result, status }: ListedToolCall): string {
  if (error) return ` ✗ ${error.code}: ${error.message}`
  return status === 'completed' ? ` ← ${JSON.stringify(result)}` : ''
}
