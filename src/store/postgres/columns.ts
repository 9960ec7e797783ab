// Parses columns: every row arrives as text, whatever type parsers the caller has set for pg.
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
