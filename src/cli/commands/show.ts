// `pawl show <session>`: an overview of one session, from the side store or, if that does not have it, from the session itself.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { StoreQueries } from '../../client/queries/queries.ts'
import type { ListedCheckpoint, ListedCompaction, ListedError, ListedMessage, ListedSession, ListedToolCall } from '../../client/index.ts'
import { PawlError } from '../../session/errors.ts'
import type { Erasure } from '../../store/read/lists/erasure.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import type { Json } from '../../session/json.ts'
import { OUTPUT_TOOL } from '../../session/built-in-tools/output.ts'
import type { SessionView } from '../../session/watching/view.ts'
import type { SessionWait } from '../../session/watching/waits.ts'
import { cutText } from '../../session/protocol/texts.ts'
import { onDeployment } from '../connecting.ts'
import { linesOfRecovery, linesOfState, pausedText } from '../chat/lines.ts'
import { isWithoutTemporal } from '../live-or-stored.ts'
import { waitText } from '../reporting.ts'
import { oneLine, paint } from '../terminal.ts'
import { archiveText, erasureText, type QueryOptions, queryCommand, queryStore, dollarsOf, sayAs, timeOf } from '../queries.ts'
import { linesOfTable } from '../table.ts'
import { CALL_COLUMNS } from './lists.ts'
import { counted } from '../../session/counted.ts'
import { showTree } from '../show-tree.ts'

/** The overview; `--json` prints it as one object. */
interface Glance {
  session: ListedSession
  /** Null if the session was not erased. */
  erasure: Erasure | null
  latestCheckpoint: ListedCheckpoint | null
  /** Messages that are delivered later, the earliest first. */
  scheduled: ListedMessage[]
  compactions: ListedCompaction[]
  /** Calls that have not ended, or whose outcome is unknown. */
  openCalls: ListedToolCall[]
  /** The newest five. */
  errors: ListedError[]
  /** The output of the newest run that has one. */
  output: { run: number; value: Json } | null
  /** What a session with a run in progress waits for. No row stores this, so it is null if the session cannot be queried. */
  waitsFor: SessionWait[] | null
}

/** A session that has no row in the store: its state, or what it waits for. */
type Live = { stored: { code: string; reason: string } } & ({ state: SessionView } | { sessionId: string; waitsFor: string })

/** Error codes of a store that does not have a session or cannot be read. */
const UNSTORED: ReadonlySet<string> = new Set(['session_not_found', 'store_unavailable', 'schema_behind', 'no_store'])
const STORED_NOTHING: ReadonlySet<string> = new Set(['session_not_found', 'schema_behind'])
const NOT_YET = 'not stored yet: a worker stores its events'

const OPEN: ToolCallStatus[] = ['issued', 'running', 'awaiting_approval', 'awaiting_answer', 'asleep', 'unknown']
const ERRORS = 5
/** Time limit for asking the session what it waits for, the only detail that is not in Postgres. */
const ASKED_MS = 6_000
/** How many bytes of an output are shown; `--json` prints all of it. */
const OUTPUT_SHOWN = 1_000
/** How many characters of a line with a command are shown: an id is up to 200 long. */
const COMMAND_SHOWN = 1_000

export function showCommand(): Command {
  return queryCommand('show', 'show an overview of a session: figures, what its run waits for, open calls, newest errors')
    .argument('<session>', "the session's id")
    .option('--task-queue <name>', 'accepted for consistency with `pawl status`; not needed to find a session')
    .option('--tree', 'show the session and those that answer its agent calls instead, one line each')
    .action((id: string, options: QueryOptions & { tree?: true }) => (options.tree ? showTree(id, options) : show(id, options)))
}

async function show(id: string, options: QueryOptions): Promise<void> {
  try {
    const stored = await queryStore(options, (queries) => glanceAt(queries, id))
    const glance: Glance = { ...stored, waitsFor: await waitsOf(stored.session, options) }
    sayAs(options, glance, () => linesOf(glance, options.wide))
  } catch (error) {
    if (!(error instanceof PawlError && UNSTORED.has(error.code))) throw error
    const live = await lookLive(id, options, error)
    sayAs(options, { session: null, ...live }, () => linesOfLive(live))
  }
}

async function glanceAt(queries: StoreQueries, id: string): Promise<Omit<Glance, 'waitsFor'>> {
  const of = queries.session(id)
  const session = await queries.sessions.get(id)
  const [erasure, latestCheckpoint, scheduled, compactions, openCalls, errors, output] = await Promise.all([
    queries.erasure(id),
    of.latestCheckpoint(),
    queries.scheduled(id),
    of.compactions(),
    of.toolCalls({ status: OPEN }),
    queries.errors({ session: id, limit: ERRORS }),
    outputOf(queries, session),
  ])
  return { session, erasure, latestCheckpoint, scheduled, compactions, openCalls, errors: errors.items, output }
}

async function waitsOf({ sessionId, status }: ListedSession, options: QueryOptions): Promise<SessionWait[] | null> {
  if (status !== 'running' && status !== 'waiting') return []
  const report = onDeployment(options, (pawl) => pawl.session(sessionId).status()).catch(() => undefined)
  const soon = await Promise.race([report, sleep(ASKED_MS, undefined, { ref: false })])
  return soon?.waitsFor ?? null
}

/** A run in progress has no output yet: a hook may let it continue. */
async function outputOf(queries: StoreQueries, { sessionId, run, status }: ListedSession): Promise<Glance['output']> {
  const given = { tool: OUTPUT_TOOL, status: 'completed' } as const
  for await (const call of queries.toolCalls({ session: sessionId, ...given, limit: 10 })) {
    if (call.run === run && status !== 'idle' && status !== 'closed') continue
    // A list does not have large results.
    const newest = (await queries.session(sessionId).toolCalls({ ...given, run: call.run })).at(-1)
    return newest ? { run: newest.run, value: newest.result } : null
  }
  return null
}

/** The session's own state, or what it waits for. @throws the store's error, if Temporal does not answer either. */
async function lookLive(id: string, options: QueryOptions, unstored: PawlError): Promise<Live> {
  const stored = { code: unstored.code, reason: STORED_NOTHING.has(unstored.code) ? NOT_YET : unstored.message }
  try {
    return await onDeployment(options, async (pawl) => ({ stored, state: await pawl.session(id).state() }))
  } catch (error) {
    if (!(error instanceof PawlError)) throw error
    if (isWithoutTemporal(error)) throw unstored
    const { waitsFor } = error as { waitsFor?: string }
    if (waitsFor === undefined) throw error
    return { sessionId: id, stored, waitsFor }
  }
}

function linesOfLive(live: Live): string[] {
  const stored = line('stored', live.stored.reason)
  if ('state' in live) return [...linesOfState(live.state), stored]
  return [line('session', live.sessionId), line('waits for', live.waitsFor), stored]
}

function line(name: string, value: string, max?: number): string {
  return `  ${name.padEnd(11)} ${oneLine(value, max)}`
}

function linesOf(
  { session, erasure, latestCheckpoint, scheduled, compactions, openCalls, errors, output, waitsFor }: Glance,
  wide: boolean | undefined,
): string[] {
  const { usage } = session
  const searches = usage.web_search_requests ? `, ${counted(usage.web_search_requests, 'web search', 'web searches')}` : ''
  const figures: [name: string, value: string | null, max?: number][] = [
    ['session', session.sessionId],
    ['agent', session.agent],
    ['status', session.status],
    ['paused', session.paused && pausedText(session.paused)],
    ['error', session.error && `${session.error.code}: ${session.error.reason}`],
    ['forked', session.parent && `from ${session.parent}, after its event ${session.forkedSeq}`],
    ['runs', `${session.run}, turns ${session.turns}, events ${session.flushedSeq}`],
    ['model', session.model],
    ['tokens', `${usage.input_tokens} in, ${usage.output_tokens} out${searches}, ${dollarsOf(session.usd) ?? 'price unknown'}`],
    ['created', timeOf(session.createdAt)],
    ['updated', `${timeOf(session.updatedAt)}, stored ${timeOf(session.flushedAt)}`],
    ['pruned', session.prunedAt && `${timeOf(session.prunedAt)}. ${archiveText(session.sessionId)}`, COMMAND_SHOWN],
    ['erased', erasure && erasureText(erasure)],
    [
      'checkpoint',
      latestCheckpoint && `${latestCheckpoint.version}, ${latestCheckpoint.reasons.join(', ')}, ${timeOf(latestCheckpoint.createdAt)}`,
    ],
    ['scheduled', scheduledText(scheduled)],
    ['compacted', compactedText(compactions)],
    ['output', output && `of run ${output.run}: ${cutText(JSON.stringify(output.value), OUTPUT_SHOWN)}`, 2 * OUTPUT_SHOWN],
    ['context', session.context === null ? null : JSON.stringify(session.context)],
    ['tags', session.tags.length > 0 ? session.tags.join(', ') : null],
  ]
  return [
    ...figures.flatMap(([name, value, max]) => (value === null ? [] : [line(name, value, max)])),
    ...(waitsFor ?? []).map((wait) => line('waits for', waitText(wait))),
    ...(session.error ? linesOfRecovery(session.sessionId, { agent: session.agent, error: session.error }) : []),
    ...(openCalls.length > 0 ? ['', ...linesOfTable(CALL_COLUMNS, openCalls, { wide })] : []),
    ...(errors.length > 0 ? ['', ...errors.map(errorLine)] : []),
  ]
}

/** How many messages are delivered later, and the first of them. */
function scheduledText([first, ...more]: readonly ListedMessage[]): string | null {
  return first ? `${counted(1 + more.length, 'message')}, the first at ${timeOf(first.scheduledFor)}` : null
}

/** What was compacted, and how often. */
function compactedText(compactions: readonly ListedCompaction[]): string | null {
  const newest = compactions.at(-1)
  if (!newest) return null
  const { run, turn, messages, tokens, window, forced, resultBytes, at } = newest
  const what = [
    ...(messages > 0 ? [`${counted(messages, 'more message')} became a summary`] : []),
    ...(resultBytes === null ? [] : [`results shortened to ${resultBytes} bytes`]),
  ].join(', ')
  const why = forced ? 'refused by the provider' : `${tokens} of ${window} tokens`
  return `${compactions.length}×, last in run ${run} turn ${turn}: ${what} (${why}), ${timeOf(at)}`
}

function errorLine({ at, context, attempt, code, class: kind, message, stack }: ListedError): string {
  const which = attempt === null ? context : `${context}, attempt ${attempt}`
  const [place] = stack?.split('\n', 1) ?? []
  const where = place === undefined ? '' : ` ${paint('dim', oneLine(place.trim()))}`
  return `  ${timeOf(at)}  ${paint('red', oneLine(`${which}: ${code ?? kind}: ${message}`))}${where}`
}
