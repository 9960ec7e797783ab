// Migrations: numbered SQL files, applied once, in order, all in one transaction under a lock.
import { readdir, readFile } from 'node:fs/promises'
import type { Logger } from '../../agent/tool.ts'
import type { Database, Queryable } from './database.ts'
import { StoreError } from '../errors.ts'
import type { PostgresSchema } from './schema.ts'

/** The folder next to this file, both in `src` and in `dist`. */
// Evaluated only on demand, because the folder does not exist in a CommonJS bundle. Bundlers would resolve a URL relative to `import.meta.url` as
// a module, even if the path is a constant.
const folder = (): URL => new URL(`${import.meta.url.replace(/[^/]*$/, '')}migrations/`)
const FILE_NAME = /^\d{4}_[a-z0-9_]+\.sql$/
/** Migrating large tables, or waiting for another process that migrates, may take this long. */
const MIGRATION_MS = 10 * 60_000

/** Names of the migrations that the Postgres schema lacks, in order. */
export async function pendingMigrations(database: Queryable, schema: PostgresSchema): Promise<string[]> {
  const applied = new Set(await appliedMigrations(database, schema))
  return (await migrationNames()).filter((name) => !applied.has(name))
}

/** The migrations that the Postgres schema lacks, and breaking ones that this release does not have. */
export async function compareMigrations(database: Queryable, schema: PostgresSchema): Promise<{ pending: string[]; tooNew: string[] }> {
  const names = await migrationNames()
  const applied = await appliedMigrations(database, schema)
  const breaking =
    applied.length > 0 ? await database.query(`select name from ${schema.table('migrations')} where breaking order by name`) : []
  return {
    pending: names.filter((name) => !applied.includes(name)),
    tooNew: breaking.map(({ name }) => name ?? '').filter((name) => !names.includes(name)),
  }
}

/** Applies missing migrations; returns their names. Any number of processes may do so in parallel. */
export async function migrate(database: Database, schema: PostgresSchema, logger?: Logger): Promise<string[]> {
  if ((await pendingMigrations(database, schema)).length === 0) return []
  const applied = await database.transaction((tx) => migrateLocked(tx, schema), { timeoutMs: MIGRATION_MS })
  if (applied.length > 0) logger?.info({ schema: schema.name, migrations: applied }, 'migrated the side store')
  return applied
}

async function migrateLocked(tx: Queryable, schema: PostgresSchema): Promise<string[]> {
  // A transaction-level lock, because a session-level lock would stay with a pooler's connection.
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`pawl:migrate:${schema.name}`])
  await createHome(tx, schema)
  // Loaded only if there is something to migrate.
  const { Umzug } = await import('umzug')
  const umzug = new Umzug<Queryable>({
    context: () => tx,
    logger: undefined,
    storage: {
      executed: ({ context }) => appliedMigrations(context, schema),
      async logMigration({ name, context }) {
        const values = [name, isBreaking(await textOf(name))]
        await context.query(`insert into ${schema.table('migrations')} (name, breaking) values ($1, $2)`, values)
      },
      async unlogMigration() {
        throw new StoreError('store_failed', 'Migrations only go forward. Restore a backup instead.')
      },
    },
    migrations: (await migrationNames()).map((name) => ({
      name,
      up: async ({ context }) => {
        await context.query(schema.fill(await textOf(name)))
      },
    })),
  })
  try {
    return (await umzug.up()).map((migration) => migration.name)
  } catch (error) {
    // Umzug wraps the Postgres error, whose code the caller needs.
    throw error instanceof Error && error.cause instanceof Error ? error.cause : error
  }
}

const textOf = (name: string): Promise<string> => readFile(new URL(`${name}.sql`, folder()), 'utf8')

/** Whether the migration is breaking (its first line says so): workers of releases without it must stop writing. */
export function isBreaking(sql: string): boolean {
  return /^-- breaking\s*$/.test(sql.split('\n', 1)[0] ?? '')
}

async function createHome(tx: Queryable, schema: PostgresSchema): Promise<void> {
  // `create schema if not exists` requires the right to create schemas even if it exists.
  const [home] = await tx.query('select 1 as found from pg_namespace where nspname = $1', [schema.name])
  if (!home) await tx.query(schema.fill('create schema {schema}'))
  await tx.query(
    schema.fill(`create table if not exists {schema}.migrations (
      name text primary key, applied_at timestamptz not null default now(), breaking boolean not null default false
    )`),
  )
}

async function appliedMigrations(database: Queryable, schema: PostgresSchema): Promise<string[]> {
  const [table] = await database.query('select to_regclass($1) as found', [schema.table('migrations')])
  if (!table?.found) return []
  const rows = await database.query(`select name from ${schema.table('migrations')} order by name`)
  return rows.map((row) => row.name ?? '')
}

/** Names of this release's migrations, in order. */
export async function migrationNames(): Promise<string[]> {
  const files = await readdir(folder()).catch((cause: unknown) => {
    throw new StoreError(
      'store_failed',
      `The migration files are not at ${folder().pathname} (was pawl bundled?). Keep pawl out of the bundle, or open the store with migrate: 'off'.`,
      { cause },
    )
  })
  return files
    .filter((file) => FILE_NAME.test(file))
    .map((file) => file.slice(0, -'.sql'.length))
    .sort()
}
