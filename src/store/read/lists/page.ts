// A page of a list: one statement with conditions, an order, and the key of the previous page's last row.
import { newStatement } from '../../postgres/insert-rows.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { InvalidOptionError } from '../../../options/errors.ts'
import type { Key, Paging, Rows, TimeSpan } from '../../filters.ts'

/** A list's `select`, by parts. */
export interface ListQuery {
  /** `select … from …`, without conditions. */
  select: string
  /** SQL conditions that each row meets. */
  where: string[]
  /** The text after `order by`. */
  order: string
  /** The placeholder of a value. */
  value(value: unknown): string
  readonly values: readonly unknown[]
}

/** A query without conditions. */
export function queryOf(select: string, order: string): ListQuery {
  const { value, values } = newStatement()
  return { select, where: [], order, value, values }
}

/** A list: its rows, their order, and where a page continues. */
export interface StoredList<F, T> {
  /** `select … from …`, without conditions. */
  select(schema: PostgresSchema): string
  /** The text after `order by`. */
  order: string
  /** Adds the conditions of a filter. */
  where(query: ListQuery, filter: F): void
  /** The kinds of the parts of a key. */
  key: readonly KeyKind[]
  /** The condition that a row comes after the row with that key. */
  after(query: ListQuery, key: Key): string
  item(row: TextRow): T
  keyOf(row: TextRow): Key
}

type KeyKind = 'text' | 'number' | 'number?'

export function readList<F, T>(
  database: Queryable,
  schema: PostgresSchema,
  { select, order, where, key: kinds, after, item, keyOf }: StoredList<F, T>,
  filter: F,
  paging: Paging,
): Promise<Rows<T>> {
  const query = queryOf(select(schema), order)
  where(query, filter)
  const key = keyIn(paging, kinds)
  if (key) query.where.push(after(query, key))
  return pageOf(database, query, paging.limit, item, keyOf)
}

/** Approximate maximum bytes of one page, but at least one row: rows may have large contents. */
const PAGE_BYTES = 4_000_000

/** The page after the key; `item` converts a row, `keyOf` returns the row's position in the order. */
export async function pageOf<T>(
  database: Queryable,
  query: ListQuery,
  limit: number,
  item: (row: TextRow) => T,
  keyOf: (row: TextRow) => Key,
): Promise<Rows<T>> {
  const found = `${query.select} ${whereAll(query.where)} order by ${query.order} limit ${query.value(limit + 1)}`
  const rows = await database.query(
    `select * from (
       select found.*, count(*) over () as rows_found,
         row_number() over (rows unbounded preceding) as row_place,
         sum(octet_length(found::text)) over (rows unbounded preceding) as bytes_so_far
       from (${found}) found
     ) page where row_place = 1 or bytes_so_far <= ${PAGE_BYTES} order by row_place`,
    query.values,
  )
  const given = rows.slice(0, limit)
  const last = given.at(-1)
  const hasMore = Number(rows[0]?.rows_found ?? 0) > given.length
  return { items: given.map(item), ...(hasMore && last && { next: keyOf(last) }) }
}

/** The clause for rows that meet all conditions. */
export function whereAll(conditions: readonly string[]): string {
  return conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''
}

/** The key to continue from, checked because it comes from outside. @throws InvalidOptionError `invalid_cursor`. */
export function keyIn(paging: Paging, kinds: readonly KeyKind[]): Key | undefined {
  const { after } = paging
  if (after === undefined) return undefined
  const fits = after.length === kinds.length && after.every((part, index) => isA(kinds[index], part))
  if (fits) return after
  throw new InvalidOptionError('The cursor does not belong to this list. Start without a cursor.', { code: 'invalid_cursor' })
}

function isA(kind: string | undefined, part: Key[number]): boolean {
  if (kind === 'text') return typeof part === 'string'
  return Number.isSafeInteger(part) || (kind === 'number?' && part === null)
}

/** Adds the conditions of a time span on a column. */
export function within(query: ListQuery, column: string, { since, until }: TimeSpan): void {
  if (since) query.where.push(`${column} >= ${timestamp(query, since.getTime())}`)
  if (until) query.where.push(`${column} < ${timestamp(query, until.getTime())}`)
}

/** The placeholder of a timestamp in milliseconds since 1970. */
export function timestamp(query: ListQuery, ms: unknown): string {
  return `${query.value(new Date(Number(ms)).toISOString())}::timestamptz`
}

/** The condition that a session's id begins with the prefix. */
export function begins(value: ListQuery['value'], column: string, idPrefix: string | undefined): string[] {
  return idPrefix === undefined ? [] : [`starts_with(${column}, ${value(safeKey(idPrefix))}::text)`]
}

/** The condition that a row of `sessions` is the session, or answers its agent calls, directly or further down. */
export function inTree(value: ListQuery['value'], sessionId: string): string {
  const id = `${value(safeKey(sessionId))}::text`
  const below = `${value(safeKey(`${sessionId}/`))}::text`
  // A session of another tree may have an id that begins like this one's.
  return `(session_id = ${id} or starts_with(session_id, ${below}) and length(root) <= length(${id}))`
}

/** The condition that a row belongs to a session, or to one of its tree. */
export function ofTree(value: ListQuery['value'], schema: PostgresSchema, sessionId: string): string {
  return `session_id in (select session_id from ${schema.table('sessions')} where ${inTree(value, sessionId)})`
}

/** Adds the condition that each of the columns has its text; undefined allows any text. */
export function equal(query: ListQuery, columns: Readonly<Record<string, string | undefined>>): void {
  for (const [column, text] of Object.entries(columns)) {
    if (text !== undefined) query.where.push(`${column} = ${query.value(safeKey(text))}`)
  }
}

/** Adds the condition that a session has all of the tags. */
export function tagged(query: ListQuery, tags: readonly string[] | undefined): void {
  if (tags) query.where.push(`tags @> ${query.value(tags.map((tag) => safeKey(tag)))}::text[]`)
}

/** Adds the condition that a column has one of a few values; for one value, in a form that lets an index provide the order. */
export function oneOf(query: ListQuery, column: string, values: readonly string[] | undefined): void {
  if (!values) return
  query.where.push(values.length === 1 ? `${column} = ${query.value(values[0])}` : `${column} = any(${query.value(values)}::text[])`)
}
