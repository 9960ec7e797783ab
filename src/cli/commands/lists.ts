// The commands that list rows of the side store: `pawl sessions`, `messages`, `checkpoints`, `errors`, `tools` and `pending`.
import type { ListedCheckpoint, ListedError, ListedPendingCall, ListedSession, ListedToolCall, MessageRow } from '../../client/index.ts'
import { effectText } from '../../session/built-in-tools/reserved.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import { textOf } from '../../session/content.ts'
import { defined } from '../../session/defined.ts'
import { textOfProviderBlock } from '../../session/provider-blocks.ts'
import type { SessionStatus } from '../../session/events.ts'
import type { PendingKind } from '../../store/listed.ts'
import { CliError } from '../errors.ts'
import { listCommand, type ListFlags, type ListFilter } from '../list-command.ts'
import { option, severalOf } from '../options.ts'
import { dollarsOf } from '../queries.ts'
import type { Column } from '../table.ts'
import { pointOptions, type TargetOptions, targetIn } from '../target.ts'

interface FilterFlags<S> extends ListFlags {
  status?: S[]
  tag?: string[]
}

const AGENT = option('--agent <name>', 'only sessions of this agent')
const TAG = option('--tag <tags>', 'only sessions that have all of these tags, separated by commas', severalOf)

const sessions = listCommand<ListedSession, FilterFlags<SessionStatus> & { paused?: true; children?: true; tree?: string }>({
  name: 'sessions',
  summary: 'list sessions, newest first',
  of: 'sessions',
  span: true,
  options: [
    option(
      '--status <status>',
      'only sessions with one of these statuses: idle, running, waiting, error, closed, separated by commas',
      severalOf,
    ),
    option('--paused', 'only sessions that are paused'),
    option('--children', 'also sessions that answer agent calls of other sessions'),
    option('--tree <session>', 'only this session and those that answer its agent calls, directly or further down'),
    AGENT,
    TAG,
  ],
  columns: [
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
  ],
  read: (queries, query, { status, paused, children, tree, agent, tag: tags }) =>
    queries.sessions.list({ ...query, ...defined({ status, paused, children, tree, agent, tags }) }),
})

function statusOf({ status, error, paused }: ListedSession): string {
  return [error ? `${status} ${error.code}` : status, ...(paused ? ['paused'] : [])].join(', ')
}

interface OneSession extends ListFilter {
  session: string
}

const messages = listCommand<MessageRow, ListFlags & TargetOptions & { archived?: true }, OneSession>({
  name: 'messages',
  summary: 'show the messages of a session, now or at a point of its past',
  of: ({ archived }) => (archived ? 'archived messages' : 'messages'),
  session: 'one',
  options: [...pointOptions(), option('--archived', 'messages that a rollback, a restart or pruning has removed from the transcript')],
  check(options) {
    if (targetIn(options) && options.archived)
      throw new CliError('invalid_usage', '--archived cannot be combined with --checkpoint, --message or --run. Use one of them.')
  },
  columns: [
    { name: 'message', of: (row) => row.messageId, whole: true },
    { name: 'turn', of: (row) => (row.run === null ? 'waits' : `${row.run}.${row.turn}`) },
    { name: 'at', of: (row) => row.at },
    { name: 'who', of: (row) => (row.kind === 'tool_results' ? 'tools' : row.kind) },
    { name: 'what', of: whatOf },
  ],
  read(queries, query, options) {
    const target = targetIn(options)
    const one = queries.session(query.session)
    if (options.archived) return one.archivedMessages().then((items) => ({ items }))
    return target ? one.messagesUpTo(target).then((items) => ({ items })) : queries.messages(query)
  },
})

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
      case 'provider':
        return block.part === 'source' ? `[${block.name}]` : `${block.part === 'call' ? '⇢' : '⇠'} ${textOfProviderBlock(block)}`
      default:
        return `[${block.type}]`
    }
  })
  return parts.join(' ')
}

const checkpoints = listCommand<ListedCheckpoint, ListFlags & { latest?: true }, OneSession>({
  name: 'checkpoints',
  summary: "list a session's checkpoints, newest first; a fork may start at an archived one, too",
  of: 'checkpoints',
  session: 'one',
  options: [option('--latest', 'only the newest one that is not archived')],
  columns: [
    { name: 'version', of: (row) => row.version, right: true },
    { name: 'turn', of: turnOf },
    { name: 'seq', of: (row) => row.seq, right: true },
    { name: 'created', of: (row) => row.createdAt, optional: true },
    { name: 'plan', of: ({ plan }) => plan && `${plan.done}/${plan.steps}`, right: true, optional: true },
    { name: 'usd', of: ({ spent }) => dollarsOf(spent && spent.usd > 0 ? spent.usd : null), right: true, optional: true },
    { name: 'last message', of: (row) => row.lastMessageId },
    { name: 'archived', of: (row) => (row.archivedSeq === null ? 'no' : `at ${row.archivedSeq}`) },
    { name: 'reasons', of: ({ reasons, by }) => `${reasons.join(', ')}${by === null ? '' : ` (${by})`}` },
  ],
  read(queries, query, { latest }) {
    if (!latest) return queries.checkpoints(query)
    const newest = queries.session(query.session).latestCheckpoint()
    return newest.then((checkpoint) => ({ items: checkpoint ? [checkpoint] : [] }))
  },
})

/** `run.turn`, or only the run for an item that does not belong to a turn. */
function turnOf({ run, turn }: Pick<ListedCheckpoint | ListedError, 'run' | 'turn'>): string | null {
  return run === null ? null : [run, turn].filter(Boolean).join('.')
}

const errors = listCommand<ListedError, ListFlags & { context?: string }>({
  name: 'errors',
  summary: 'list failed attempts and failed runs (without an attempt number), newest first',
  of: 'errors',
  session: 'any',
  span: true,
  options: [option('--context <context>', "only errors of 'model', 'tool:<name>', 'run', 'compaction' or 'checkpoint'")],
  columns: [
    { name: 'at', of: (row) => row.at },
    { name: 'session', of: (row) => row.sessionId, whole: true },
    { name: 'turn', of: turnOf },
    { name: 'context', of: contextOf },
    { name: 'attempt', of: (row) => row.attempt, right: true, optional: true },
    { name: 'retryable', of: (row) => (row.retryable ? 'yes' : 'no'), optional: true },
    { name: 'call', of: (row) => row.callId, whole: true, optional: true },
    { name: 'place', of: placeOf, whole: true, optional: true },
    { name: 'error', of: (row) => `${row.code ?? row.class}: ${row.message}` },
  ],
  read: (queries, query, { context }) => queries.errors({ ...query, ...defined({ context }) }),
})

/** What failed: the tool, or the model and whether it had begun to answer. */
function contextOf({ context, model, phase }: ListedError): string {
  return [context, model, phase === 'stream' && 'in its answer'].filter(Boolean).join(' ')
}

/** Where the exception was thrown: the first frame of its stack. */
function placeOf({ stack }: ListedError): string | null {
  return stack?.split('\n', 1)[0]?.replace(/^\s*at /, '') ?? null
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

/** The arguments, and the model's own if a hook or a person has changed them. */
function argumentsOf({ input, modelInput }: Pick<ListedToolCall, 'input' | 'modelInput'>): string {
  const own = modelInput === null ? '' : ` (the model's own: ${JSON.stringify(modelInput)})`
  return `${JSON.stringify(input)}${own}`
}

function outcomeOf({ error, result, status }: ListedToolCall): string {
  if (error) return ` ✗ ${error.code}: ${error.message}`
  return status === 'completed' ? ` ← ${JSON.stringify(result)}` : ''
}

interface ToolsFlags extends FilterFlags<ToolCallStatus> {
  tool?: string
  key?: string
  effectId?: string
}

const tools = listCommand<ListedToolCall, ToolsFlags>({
  name: 'tools',
  summary: 'list tool calls, newest first',
  of: 'tool calls',
  session: 'any',
  span: true,
  options: [
    option(
      '--status <status>',
      'only calls with one of these statuses, such as unknown, running, failed or awaiting_approval, separated by commas',
      severalOf,
    ),
    option('--tool <name>', 'only calls of this tool'),
    option('--key <key>', 'only calls with this idempotency key'),
    option('--effect-id <id>', "only the call whose effect has this id in the outside world, such as a refund's id"),
  ],
  columns: CALL_COLUMNS,
  read: (queries, query, { status, tool, key, effectId }) => queries.toolCalls({ ...query, ...defined({ status, tool, key, effectId }) }),
})

const pending = listCommand<ListedPendingCall, FilterFlags<never> & { kind?: PendingKind[]; role?: string; tree?: true; group?: string }>({
  name: 'pending',
  summary: 'list the calls that wait for a person or a client, longest wait first',
  of: 'calls that wait',
  session: 'any',
  options: [
    option('--kind <kind>', 'only these kinds: approval, client, question, unknown, separated by commas', severalOf),
    option('--role <role>', 'only calls that a person with this role must approve'),
    option('--tree', 'also calls of the sessions that answer agent calls of the one that is named'),
    option('--group <group>', 'only the calls that one decision can settle, as `group` of --wide and --json names them'),
    AGENT,
    TAG,
  ],
  columns: [
    { name: 'kind', of: (row) => row.kind },
    { name: 'session', of: (row) => row.sessionId, whole: true },
    { name: 'call', of: (row) => row.callId, whole: true },
    { name: 'tool', of: (row) => row.tool },
    { name: 'since', of: (row) => row.waitingSince },
    { name: 'until', of: (row) => row.expiresAt, optional: true },
    { name: 'role', of: (row) => (row.kind === 'approval' ? (row.approvers?.role ?? null) : null), optional: true },
    { name: 'group', of: (row) => (row.kind === 'approval' ? row.group : null), whole: true, optional: true },
    { name: 'reason', of: (row) => row.reason, optional: true },
    { name: 'digest', of: (row) => (row.kind === 'approval' || row.kind === 'question' ? row.digest : null), whole: true, optional: true },
    { name: 'input', of: argumentsOf },
  ],
  read: (queries, query, { kind, role, tree, group, agent, tag: tags }) =>
    queries.pending.list({ ...query, ...defined({ kind, role, tree, group, agent, tags }) }),
})

export const LISTS = [sessions, messages, checkpoints, errors, tools, pending]
