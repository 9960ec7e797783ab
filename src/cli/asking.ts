// What the commands that ask the side store share: where it is, how much of a list is shown, and how.
import { Command, InvalidArgumentError, Option } from 'commander'
import type { StoreAsking } from '../client/queries/asking.ts'
import type { List } from '../client/queries/list.ts'
import { milliseconds } from '../session/duration.ts'
import { connectOptions } from './connecting.ts'
import { CliError } from './errors.ts'
import { dataOption, jsonOption } from './options.ts'
import { paint } from './terminal.ts'
import { type Column, linesOfTable } from './table.ts'
import { defined } from '../session/defined.ts'

/** Of every command that asks. */
export interface AskingOptions {
  data: string
  schema?: string
  json?: true
}

/** Of every command that lists. */
export interface ListingOptions extends AskingOptions {
  limit: number
  cursor?: string
  all?: true
}

/** Of a command whose list has a span of time. */
export interface SpanOptions {
  since?: Date
  until?: Date
}

/** Of a command that may be asked about one session. */
export interface SessionOptions {
  session?: string
}

/** Lets a command be asked about one session, named as everywhere: `pawl tools <session>`. */
export function withSession(command: Command): Command {
  return command.argument('[session]', "the session's id (default: all sessions)").addOption(
    // What was once the only way to say it.
    new Option('--session <id>', 'the same as the argument').hideHelp(),
  )
}

/** The session that the argument or the option names. @throws CliError `invalid_usage` if they differ. */
export function sessionIn(argument: string | undefined, { session }: SessionOptions): SessionOptions {
  if (argument !== undefined && session !== undefined && argument !== session) {
    throw new CliError('invalid_usage', `Both ${argument} and --session ${session} are named: name one session.`)
  }
  const named = argument ?? session
  return named === undefined ? {} : { session: named }
}

/** A command that asks the side store; Temporal need not be there. */
export function askingCommand(name: string, description: string): Command {
  return new Command(name)
    .description(description)
    .option('--schema <name>', "Postgres schema (default: 'pawl')")
    .addOption(dataOption())
    .addOption(jsonOption())
}

/** One that lists. */
export function listingCommand(name: string, description: string): Command {
  return askingCommand(name, description)
    .option('--limit <n>', 'how many', limitOf, 50)
    .option('--cursor <cursor>', 'go on where a list ended')
    .option('--all', 'all of them, page by page')
}

function limitOf(text: string): number {
  const limit = Number(text)
  if (!Number.isInteger(limit)) throw new InvalidArgumentError('Give a number from 1 to 1000.')
  return limit
}

/** Adds the options of a span of time. */
export function withSpan(command: Command): Command {
  return command
    .option('--since <when>', "from then on: '2h' ago, or 2026-11-21T12:00:00Z", momentOf)
    .option('--until <when>', 'before then', momentOf)
}

/** The options of a span, for the client. */
export function spanOf({ since, until }: SpanOptions): SpanOptions {
  return { ...(since && { since }), ...(until && { until }) }
}

/** Several values, with commas between them. */
export function severalOf(text: string): string[] {
  return text.split(',').filter((one) => one !== '')
}

function momentOf(text: string): Date {
  const ago = milliseconds(text, { most: Number.MAX_SAFE_INTEGER })
  const moment = ago === undefined ? new Date(text) : new Date(Date.now() - ago)
  if (Number.isNaN(moment.getTime()))
    throw new InvalidArgumentError("Give how long ago, such as '2h' or '7d', or a time, such as 2026-11-21T12:00:00Z.")
  return moment
}

/** Opens the store, works and closes it. */
export async function askStore<T>(options: AskingOptions & { follow?: true }, work: (asking: StoreAsking) => Promise<T>): Promise<T> {
  // Loaded when it is needed: `pawl --help` need not wait for it.
  const { openAsking } = await import('../client/queries/asking.ts')
  const { postgres, schema, logger, onWait } = await connectOptions(options)
  const asking = openAsking({
    ...(typeof postgres === 'string' && { postgres }),
    ...defined({ schema }),
    ...(onWait && { onWait }),
    // A command that follows outlives an outage and reports it; for any other the outage is its error.
    ...(options.follow && logger && { logger }),
  })
  try {
    return await work(asking)
  } finally {
    await asking.close()
  }
}

/** Shows a list: a table and how to go on; with `--json` a line for each item, and a last one with the cursor if there are more. */
export async function showList<T extends object>(options: ListingOptions, list: List<T>, columns: readonly Column<T>[]): Promise<void> {
  const { items, cursor } = options.all ? { items: await allOf(list), cursor: undefined } : await list
  showAll(options, items, columns)
  if (cursor === undefined) return
  say(options.json ? JSON.stringify({ cursor }) : paint('dim', `(more: --cursor ${cursor}, or --all)`))
}

/** Shows what there is. */
export function showAll<T extends object>(options: AskingOptions, items: readonly T[], columns: readonly Column<T>[]): void {
  const lines = options.json ? items.map((item) => JSON.stringify(item)) : linesOfTable(columns, items)
  for (const line of lines) say(line)
}

async function allOf<T>(list: List<T>): Promise<T[]> {
  const items: T[] = []
  for await (const item of list) items.push(item)
  return items
}

/** What a page takes of the options. */
export function pageOf({ limit, cursor }: ListingOptions): { limit: number; cursor?: string } {
  return { limit, ...defined({ cursor }) }
}

/** Prints a line. */
export function say(line: string): void {
  process.stdout.write(`${line}\n`)
}

/** A moment to the second, in UTC. */
export function timeOf(date: Date | null): string | null {
  return date && `${date.toISOString().slice(0, 19)}Z`
}

/** US dollars. */
export function dollarsOf(usd: number | null): string | null {
  return usd === null ? null : `$${usd.toFixed(4)}`
}
