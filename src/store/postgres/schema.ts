// The Postgres schema that the store lives in: its name, quoted, and the channels of its notifications.
import { StoreError } from '../errors.ts'

/** The Postgres schema of the store's tables. */
export interface PostgresSchema {
  readonly name: string
  /** NOTIFY channel of commits. */
  readonly channel: string
  /** NOTIFY channel of stops: interrupts that concern calls of other workers. */
  readonly stops: string
  /** The qualified, quoted name of a table: no statement relies on `search_path`. */
  table(name: string): string
  /** Replaces the placeholder `{schema}` with the quoted name. */
  fill(sql: string): string
}

/** Shorter than Postgres's limit of 63, so that the channel's name fits as well. */
const SCHEMA_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,49}$/

/** The Postgres schema with that name. @throws StoreError `invalid_store_options`. */
export function schemaOf(name: string): PostgresSchema {
  if (!SCHEMA_NAME.test(name) || /^pg_/i.test(name)) {
    throw new StoreError(
      'invalid_store_options',
      `The name of the Postgres schema must be 1 to 50 of [A-Za-z0-9_], not beginning with a digit or pg_; ${JSON.stringify(name)} is not. Choose another, such as "pawl".`,
    )
  }
  const quoted = `"${name}"`
  return {
    name,
    channel: `pawl_${name}`,
    // This cannot be the channel of another schema, because no name contains a dot.
    stops: `pawl_${name}.stops`,
    table: (table) => `${quoted}.${table}`,
    fill: (sql) => sql.replaceAll('{schema}', quoted),
  }
}
