// What the commands that query the side store share: finding it, paging, and output.
import { Command, Option } from 'commander'
import type { StoreQueries } from '../client/queries/queries.ts'
import type { Erasure } from '../store/read/lists/erasure.ts'
import type { List, Page } from '../client/queries/list.ts'
import { connectOptions } from './connecting.ts'
import { CliError } from './errors.ts'
import { here } from './here.ts'
import { dataOption, jsonOption, limitOption, momentOf } from './options.ts'
import { oneLine, paint } from './terminal.ts'
import { withNearIds } from './near-ids.ts'
import { type Column, linesOfTable } from './table.ts'
import { defined } from '../session/defined.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'

/** Options of every query command. */
export interface QueryOptions {
  data: string
  schema?: string
  json?: true
  wide?: true
}

/** Options of every list command. */
export interface ListingOptions extends QueryOptions {
  limit: number
  cursor?: string
  all?: true
}

/** Options of a list with a time span. */
export interface SpanCommandOptions {
  since?: Date
  until?: Date
}

/** Options of a command that accepts one session. */
export interface SessionCommandOptions {
  session?: string
}

/** Adds an optional session: `pawl tools <session>`. */
export function withSession(command: Command): Command {
  return command.argument('[session]', "the session's id (default: all sessions)").addOption(
    // The older form of the argument.
    new Option('--session <id>', 'the same as the argument').hideHelp(),
  )
}

/** The session that the argument or the option names. @throws CliError `invalid_usage` if they differ. */
export function sessionIn(argument: string | undefined, { session }: SessionCommandOptions): SessionCommandOptions {
  if (argument !== undefined && session !== undefined && argument !== session) {
    throw new CliError('invalid_usage', `The command names two sessions, ${argument} and --session ${session}. Name one.`)
  }
  const named = argument ?? session
  return named === undefined ? {} : { session: named }
}

/**
 * The same for a list. The session must exist, so that an empty list means that it has none.
 * @throws SessionNotFoundError for an unknown session.
 */
export async function knownSessionIn(
  queries: StoreQueries,
  argument: string | undefined,
  options: SessionCommandOptions,
): Promise<SessionCommandOptions> {
  const named = sessionIn(argument, options)
  if (named.session !== undefined) await queries.sessions.get(named.session)
  return named
}

/** A command that queries the side store; it does not need Temporal. */
export function queryCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--schema <name>', "Postgres schema of the side store (default: 'pawl')")
    .addOption(dataOption())
    .option('--wide', 'do not truncate values to fit the terminal; show exact times')
    .addOption(jsonOption())
}

export function listingCommand(name: string, description: string): Command {
  return paged(queryCommand(name, description))
}

/** Adds the options of pages. */
export function paged(command: Command): Command {
  return command
    .addOption(limitOption('items per page, 1 to 1000'))
    .option('--cursor <cursor>', 'continue after the page that printed this cursor')
    .option('--all', 'print all items')
}

/** Adds the options of a time span. */
export function withSpan(command: Command): Command {
  return command
    .option('--since <when>', "start of the time span: an age such as '2h' or '7d', or a time such as 2026-11-21T12:00:00Z", momentOf)
    .option('--until <when>', 'end of the time span', momentOf)
}

/** The options of a span, for the client. */
export function spanOf({ since, until }: SpanCommandOptions): SpanCommandOptions {
  return { ...(since && { since }), ...(until && { until }) }
}

/** Opens the store, runs `work` and closes the store. */
export async function queryStore<T>(options: QueryOptions & { follow?: true }, work: (queries: StoreQueries) => Promise<T>): Promise<T> {
  // Loaded on demand, so that `pawl --help` is fast.
  const { openQueries } = await import('../client/queries/queries.ts')
  const { postgres, schema, logger, onWait } = await connectOptions(options)
  const queries = openQueries({
    ...(typeof postgres === 'string' && { postgres }),
    ...defined({ schema }),
    ...(onWait && { onWait }),
    // A command that follows survives an outage and reports it; for other commands, the outage is an error.
    ...(options.follow && logger && { logger }),
  })
  try {
    return await work(queries)
  } catch (error) {
    throw await withNearIds(error, queries)
  } finally {
    await queries.close()
  }
}

/** Prints a list of `what`: a table and the cursor of the next page. With `--json`, a line per item, and the cursor as the last line. */
export async function showList<T extends object>(
  options: ListingOptions & { agent?: string; session?: string; archived?: true },
  what: string,
  list: List<T> | Promise<Page<T>>,
  columns: readonly Column<T>[],
): Promise<void> {
  const { items, cursor } = options.all && Symbol.asyncIterator in list ? { items: await allOf(list), cursor: undefined } : await list
  showAll(options, what, items, columns)
  if (items.length === 0) await warnOfUnknownAgents(options, [options.agent])
  if (items.length === 0 && options.session !== undefined) await warnIfGone(options, options.session)
  if (cursor === undefined) return
  say(options.json ? JSON.stringify({ cursor }) : paint('dim', `(more: --cursor ${cursor}, or --all)`))
}

/**
 * Names the known agents on standard error if no session has a selected one, because a misspelt name would silently select nothing. Says
 * nothing while there are no sessions at all, or if the side store does not answer.
 */
export async function warnOfUnknownAgents(options: QueryOptions, selected: readonly (string | undefined)[]): Promise<void> {
  const names = selected.filter((name) => name !== undefined)
  if (names.length === 0) return
  const known = await queryStore(options, (queries) => queries.agentNames()).catch((): string[] => [])
  const unknown = names.filter((name) => !known.includes(name))
  if (known.length === 0 || unknown.length === 0) return
  const said = `No session has the agent ${unknown.map((name) => JSON.stringify(name)).join(' or ')}. Agents with sessions: ${known.join(', ')}.`
  process.stderr.write(`${paint('yellow', oneLine(said, 1_000))}\n`)
}

/**
 * Says on standard error if the session was erased or pruned: otherwise, an empty result would look as if there had never been anything.
 * `archived`: the archive was empty, too.
 */
export async function warnIfGone(options: QueryOptions & { archived?: true }, session: string): Promise<void> {
  const said = await queryStore(options, async (queries) => {
    const erasure = await queries.erasure(session)
    if (erasure) return `Session ${session} was erased ${erasureText(erasure)}.`
    const { prunedAt, updatedAt } = await queries.sessions.get(session)
    if (!prunedAt || prunedAt < updatedAt) return null
    return `Session ${session} was pruned at ${timeOf(prunedAt)}. ${options.archived ? 'Its archived messages were deleted.' : archiveText(session)}`
  }).catch(() => null)
  if (said !== null) process.stderr.write(`${paint('yellow', oneLine(said, 1_000))}\n`)
}

/** Where the messages of a pruned session are. */
export function archiveText(session: string): string {
  return `\`${here(SUGGESTIONS.listArchived(session))}\` lists its messages.`
}

/** When a session was erased, by whom, and why. */
export function erasureText({ at, by, reason }: Erasure): string {
  return `at ${timeOf(at)}${by === null ? '' : ` by ${by}`}${reason === null ? '' : `: ${reason}`}`
}

/** Prints items, or that there are none of `what`. */
export function showAll<T extends object>(options: QueryOptions, what: string, items: readonly T[], columns: readonly Column<T>[]): void {
  if (items.length === 0 && !options.json) return say(paint('dim', `no ${what}`))
  const lines = options.json ? items.map((item) => JSON.stringify(item)) : linesOfTable(columns, items, { wide: options.wide })
  for (const line of lines) say(line)
}

async function allOf<T>(list: List<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}

export function pageOf({ limit, cursor }: ListingOptions): { limit: number; cursor?: string } {
  return { limit, ...defined({ cursor }) }
}

/** Prints the value with `--json`, otherwise the lines. */
export function sayAs({ json }: { json?: true | undefined }, value: unknown, lines: () => readonly string[]): void {
  for (const line of json ? [JSON.stringify(value)] : lines()) say(line)
}

let kept: string[] | undefined

export function say(line: string): void {
  if (kept) kept.push(line)
  else process.stdout.write(`${line}\n`)
}

/** Runs `work`, and returns the lines that it would have printed. */
export async function linesSaid(work: () => Promise<void>): Promise<string[]> {
  const lines: string[] = []
  kept = lines
  try {
    await work()
    return lines
  } finally {
    kept = undefined
  }
}

/** A time to the second, in UTC. */
export function timeOf(date: Date | null): string | null {
  return date && `${date.toISOString().slice(0, 19)}Z`
}

/** US dollars. */
export function dollarsOf(usd: number | null): string | null {
  return usd === null ? null : `$${usd.toFixed(4)}`
}
