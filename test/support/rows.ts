// Reads the side store's tables as they are: whole, to compare before and after, and searching for what must not be there.
import { randomUUID } from 'node:crypto'
import pg from 'pg'

/** A test's own schema. */
export interface OwnSchema {
  readonly name: string
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>
  /** Another connection, for a transaction that is held open. */
  connection(): Promise<pg.Client>
  /** All rows of the tables that describe sessions, without the times of writing. */
  everything(sessions?: readonly string[]): Promise<Record<string, unknown[]>>
  /** How many rows of each table belong to the session; tables without any are left out. */
  counts(sessionId: string): Promise<Record<string, number>>
  /** Tables that contain the text somewhere. */
  holding(text: string): Promise<string[]>
  /** Makes the sessions look as if nothing had happened in them for this many days. */
  age(sessions: readonly string[], days: number): Promise<void>
  drop(): Promise<void>
  close(): Promise<void>
}

/** Tables that say nothing about a session, or only when something was written. */
const NOT_OF_SESSIONS = new Set(['migrations', 'audit', 'commits'])
const WRITTEN_AT = ['flushed_at', 'archived_at']

/** The Postgres schema of that name; it need not exist yet. */
export async function ownSchema(databaseUrl: string, prefix: string): Promise<OwnSchema> {
  const name = `${prefix}_${randomUUID().slice(0, 8)}`
  const client = new pg.Client(databaseUrl)
  await client.connect()
  const query = async (sql: string, values: unknown[] = []): Promise<Record<string, unknown>[]> =>
    (await client.query(sql.replaceAll('{schema}', `"${name}"`), values)).rows as Record<string, unknown>[]
  const tables = async (): Promise<string[]> =>
    (
      await query(
        `select distinct table_name from information_schema.columns join information_schema.tables using (table_schema, table_name)
          where table_schema = $1 and column_name = 'session_id' and table_type = 'BASE TABLE'`,
        [name],
      )
    ).map((row) => String(row.table_name))

  return {
    name,
    query,
    async connection() {
      const another = new pg.Client(databaseUrl)
      await another.connect()
      return another
    },
    async everything(sessions) {
      const found: Record<string, unknown[]> = {}
      for (const table of (await tables()).filter((one) => !NOT_OF_SESSIONS.has(one)).sort()) {
        const rows = await query(
          `select (to_jsonb(t) - $1::text[])::text as row from {schema}.${table} t where $2::text[] is null or session_id = any($2)`,
          [WRITTEN_AT, sessions ?? null],
        )
        found[table] = rows
          .map((row) => String(row.row))
          .sort()
          .map((row) => JSON.parse(row) as unknown)
      }
      return found
    },
    async counts(sessionId) {
      const counts: Record<string, number> = {}
      for (const table of (await tables()).sort()) {
        const [row] = await query(`select count(*)::int as n from {schema}.${table} where session_id = $1`, [sessionId])
        if (Number(row?.n) > 0) counts[table] = Number(row?.n)
      }
      return counts
    },
    async holding(text) {
      const holding: string[] = []
      for (const table of await tables()) {
        const [row] = await query(`select count(*)::int as n from {schema}.${table} t where strpos(t::text, $1) > 0`, [text])
        if (Number(row?.n) > 0) holding.push(table)
      }
      return holding.sort()
    },
    async age(sessions, days) {
      await query(
        `update {schema}.sessions set updated_at = updated_at - make_interval(days => $2), flushed_at = flushed_at - make_interval(days => $2)
         where session_id = any($1::text[])`,
        [sessions, days],
      )
    },
    async drop() {
      await query('drop schema if exists {schema} cascade')
    },
    async close() {
      await query('drop schema if exists {schema} cascade')
      await client.end()
    },
  }
}
