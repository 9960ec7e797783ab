// Inserts many rows with one statement: an insert from the rows' JSON, as a part of a larger statement.
import type { PostgresSchema } from './schema.ts'
import type { Columns, RowOf } from './tables.ts'
import { withoutUnsafeEscapes } from './sanitise.ts'

/** A statement of several parts that share parameters. */
export interface Statement {
  /** The placeholder of a value. */
  value(value: unknown): string
  /** Adds a part; the parts are executed in no particular order. */
  part(sql: string): void
  readonly parts: readonly string[]
  readonly values: readonly unknown[]
}

/** A statement without parts. */
export function newStatement(): Statement {
  const parts: string[] = []
  const values: unknown[] = []
  return {
    value: (value) => `$${values.push(value)}`,
    part: (sql) => void parts.push(sql),
    parts,
    values,
  }
}

/** The text of the statement: its parts, followed by `last`. */
export function textOfStatement(statement: Statement, last: string): string {
  if (statement.parts.length === 0) return last
  return `with ${statement.parts.map((part, index) => `part_${index} as (${part})`).join(', ')} ${last}`
}

/** Adds the insert of `rows`; `fixed`: values of columns that all rows share; `onConflict`: the clause that follows. */
export function insertRows<C extends Columns>(
  statement: Statement,
  schema: PostgresSchema,
  insert: { table: string; columns: C; rows: readonly RowOf<C>[]; fixed: Record<string, string>; onConflict?: string },
): void {
  const { table, columns, rows, fixed, onConflict = '' } = insert
  if (rows.length === 0) return
  const names = Object.keys(columns)
  statement.part(
    `insert into ${schema.table(table)} as stored (${[...Object.keys(fixed), ...names].join(', ')}) ` +
      `select ${[...Object.values(fixed).map(statement.value), ...names.map((name) => cast(columns, name))].join(', ')} ` +
      `from ${recordset(statement, columns, rows)} ${onConflict}`,
  )
}

/** `rows` as a table named `given`. */
export function recordset<C extends Columns>(statement: Statement, columns: C, rows: readonly RowOf<C>[]): string {
  // jsonb is passed as text: within the JSON of the rows, its nesting and escapes are ordinary characters.
  const types = Object.entries(columns).map(([name, type]) => `${name} ${type === 'jsonb' ? 'text' : type}`)
  const json = withoutUnsafeEscapes(JSON.stringify(rows))
  return `json_to_recordset(${statement.value(json)}::json) as given(${types.join(', ')})`
}

function cast(columns: Columns, name: string): string {
  return columns[name] === 'jsonb' ? `given.${name}::jsonb` : `given.${name}`
}
