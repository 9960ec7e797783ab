// A command that lists rows of the side store: for a session or a time span, in pages, as a table.
import type { Command, Option } from 'commander'
import type { List } from '../client/queries/list.ts'
import type { StoreQueries } from '../client/queries/queries.ts'
import {
  knownSessionIn,
  type ListingOptions,
  listingCommand,
  pageOf,
  queryStore,
  type SessionCommandOptions,
  showList,
  spanOf,
  type SpanCommandOptions,
  withSession,
  withSpan,
} from './queries.ts'
import type { Column } from './table.ts'
import { defined } from '../session/defined.ts'

/** The filters that lists share. */
export interface ListFilter extends SpanCommandOptions {
  limit: number
  cursor?: string
  session?: string
}

/** Options of every list command. */
export type ListFlags = ListingOptions & SessionCommandOptions & SpanCommandOptions & { agent?: string }

export interface ListCommand<T extends object, O extends ListFlags, Q extends ListFilter> {
  name: string
  summary: string
  /** What is listed. An empty list prints `no` and this. */
  of: string | ((options: O) => string)
  /** `any`: all sessions, or the one that is named. Default: the command does not accept a session. */
  session?: 'any' | 'one'
  /** Whether the list can be limited to a time span. */
  span?: true
  options: readonly Option[]
  /** Refuses options before the store is opened. */
  check?(options: O): void
  columns: readonly Column<T>[]
  read(queries: StoreQueries, query: Q, options: O): List<T> | Promise<{ items: T[] }>
}

/** Returns a function, because a command belongs to the program that it is added to. */
export function listCommand<T extends object, O extends ListFlags = ListFlags, Q extends ListFilter = ListFilter>(
  row: ListCommand<T, O, Q>,
): () => Command {
  return () => {
    const command = listingCommand(row.name, row.summary)
    if (row.session === 'any') withSession(command)
    if (row.session === 'one') command.argument('<session>', "the session's id")
    if (row.span) withSpan(command)
    for (const option of row.options) command.addOption(option)
    return command.action((...words: unknown[]) => {
      // Commander passes the arguments, the options and the command.
      const options = words.at(-2) as O
      return show(row, words.length > 2 ? (words[0] as string | undefined) : undefined, options)
    })
  }
}

async function show<T extends object, O extends ListFlags, Q extends ListFilter>(
  row: ListCommand<T, O, Q>,
  session: string | undefined,
  options: O,
): Promise<void> {
  row.check?.(options)
  await queryStore(options, async (queries) => {
    const which = row.session === 'any' ? await knownSessionIn(queries, session, options) : defined({ session })
    const list = row.read(queries, { ...pageOf(options), ...spanOf(options), ...which } as Q, options)
    await showList({ ...options, ...which }, typeof row.of === 'string' ? row.of : row.of(options), list, row.columns)
  })
}
