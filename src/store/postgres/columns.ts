// Parses columns: every row arrives as text, whatever type parsers the caller has set for pg.
import type { Usage } from '../../session/content.ts'
import type { Json } from '../../session/json.ts'
import type { TextRow } from './database.ts'

/** A timestamp as milliseconds: its text would depend on the connection's settings. */
export const ms = (column: string): string => `(extract(epoch from ${column}) * 1000)::bigint as ${column}`

/** The exact value from a `raw` column, otherwise that of the other columns. */
export function exactOr<T>(raw: string | null | undefined, held: () => T): T {
  return raw == null ? held() : (JSON.parse(raw) as T)
}

/** Text; empty for null. */
export function textIn(row: TextRow, column: string): string {
  return row[column] ?? ''
}

export function jsonIn(row: TextRow, column: string): Json {
  const text = row[column]
  return text == null ? null : (JSON.parse(text) as Json)
}

export function numberIn(row: TextRow, column: string): number | null {
  const text = row[column]
  return text == null ? null : Number(text)
}

/** A timestamp that was selected by `ms`. */
export function dateIn(row: TextRow, column: string): Date {
  return new Date(Number(row[column]))
}

/** A timestamp that was selected by `ms`, or null. */
export function dateOrNull(row: TextRow, column: string): Date | null {
  return row[column] == null ? null : dateIn(row, column)
}

/** The columns of a usage. */
export function usageIn(row: TextRow): Usage {
  const searches = Number(row.web_search_requests ?? 0)
  return {
    input_tokens: Number(row.input_tokens),
    output_tokens: Number(row.output_tokens),
    cache_creation_input_tokens: Number(row.cache_creation_input_tokens),
    cache_read_input_tokens: Number(row.cache_read_input_tokens),
    ...(searches > 0 && { web_search_requests: searches }),
  }
}

/** A usage as columns. */
export function usageColumns({ web_search_requests = 0, ...tokens }: Usage): Required<Usage> {
  return { ...tokens, web_search_requests }
}
