// Migrations on request, as the owner of the Postgres schema: for deployments whose workers may not change tables.
import type { Logger } from '../../agent/tool.ts'
import type { TellWait } from '../../connect/waits.ts'
import { checkOptions, fn, options, text, where } from '../../options/check.ts'
import { logger as aLogger } from '../../options/shared.ts'
import { databaseAt, type Queryable } from './database.ts'
import { StoreError } from '../errors.ts'
import { compareMigrations, migrate } from './migrate.ts'
import { moveNamespace, readNamespace } from './namespace.ts'
import { type PostgresSchema, schemaOf } from './schema.ts'
import { defined } from '../../session/defined.ts'

/** Options of `migrateStore`. */
export interface MigrateOptions {
  /** URL of the database, with the role that owns the tables. */
  postgres: string
  /** The Postgres schema of pawl's tables: 1 to 50 of `[A-Za-z0-9_]`, not beginning with a digit or `pg_`. Default `pawl`. */
  schema?: string
  /** An existing role that receives the rights that workers and clients need. Not used with `check`. Default: none. */
  appRole?: string
  /** Only reports which migrations are missing or too new, and changes nothing. Default: false. */
  check?: boolean
  /** Moves the sessions to this Temporal namespace, whose workers then serve them. Not used with `check`. Default: they stay. */
  namespace?: string
  /** Logs each migration. Default: no log. */
  logger?: Logger
  /** Called with what the migration waits for, such as `Postgres at db:5432/pawl`: after two seconds, then every five. Default: none. */
  onWait?: TellWait
}

/** The outcome. */
export interface MigrateReport {
  /** The Postgres schema. */
  schema: string
  /** Names of the migrations that were applied. */
  applied: string[]
  /** Names of missing migrations; only with `check`. */
  pending: string[]
  /** Names of breaking migrations of newer releases, which stop workers of this release from writing; only with `check`. */
  tooNew: string[]
  /** The Temporal namespace that the sessions belong to; absent if no worker has claimed them yet. */
  namespace?: string
  /** The namespace that they belonged to, if they were moved. */
  movedFrom?: string
  /** The role that received the rights that workers and clients need. */
  grantedTo?: string
}

const OPTIONS = options({
  postgres: where<string>((value) => typeof value === 'string', 'a URL such as postgres://user@host/database').optional(),
  schema: where<string>((value) => typeof value === 'string', 'the name of a Postgres schema').optional(),
  appRole: text("a role's name").optional(),
  namespace: text("a namespace's name").optional(),
  check: where<boolean>((value) => typeof value === 'boolean', 'true or false').optional(),
  logger: aLogger<Logger>().optional(),
  onWait: fn<TellWait>().optional(),
})

/**
 * Updates the side store's tables to this release. Any number of processes may do so in parallel, and while workers write.
 * @throws InvalidOptionError `invalid_option`; StoreError `store_unavailable`, `permission_denied`, `role_not_found`,
 * `invalid_store_options`, `invalid_postgres_url`.
 */
export async function migrateStore(given: MigrateOptions): Promise<MigrateReport> {
  const { postgres, schema: name = 'pawl', appRole, namespace, check, logger, onWait } = checkOptions(OPTIONS, given)
  if (!postgres) throw new StoreError('invalid_store_options', 'No Postgres is configured. Set DATABASE_URL or pass the option `postgres`.')
  const schema = schemaOf(name)
  const database = databaseAt(postgres, { logger, onWait })
  try {
    if (check) return { schema: name, applied: [], ...(await compareMigrations(database, schema)), ...(await owner(database, schema)) }
    const report = { schema: name, applied: await migrate(database, schema, logger), pending: [], tooNew: [] }
    const before = namespace === undefined ? undefined : await moveNamespace(database, schema, namespace)
    const moved = before != null && before !== namespace ? { movedFrom: before } : {}
    if (appRole !== undefined) await database.transaction((tx) => grantTo(tx, schema, appRole))
    return { ...report, ...(await owner(database, schema)), ...moved, ...defined({ grantedTo: appRole }) }
  } finally {
    await database.close()
  }
}

async function owner(database: Queryable, schema: PostgresSchema): Promise<Pick<MigrateReport, 'namespace'>> {
  return defined({ namespace: (await readNamespace(database, schema)) ?? undefined })
}

/** Quotes a name, which may be any but the empty one. */
function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Grants the role what pawl's workers and clients need, including tables of later migrations. @throws StoreError `role_not_found`. */
async function grantTo(tx: Queryable, schema: PostgresSchema, role: string): Promise<void> {
  const [found] = await tx.query('select 1 as found from pg_roles where rolname = $1', [role])
  if (!found) {
    throw new StoreError('role_not_found', `Postgres has no role ${JSON.stringify(role)}. Create it, then run the command again.`)
  }
  const to = quoted(role)
  const tables = 'select, insert, update, delete'
  const sequences = 'usage, select'
  const grants = [
    `grant usage on schema {schema} to ${to}`,
    `grant ${tables} on all tables in schema {schema} to ${to}`,
    `grant ${sequences} on all sequences in schema {schema} to ${to}`,
    `alter default privileges in schema {schema} grant ${tables} on tables to ${to}`,
    `alter default privileges in schema {schema} grant ${sequences} on sequences to ${to}`,
    // Only the owner may change the list of migrations, and move the sessions to another namespace.
    `revoke insert, update, delete on {schema}.migrations from ${to}`,
    `revoke update, delete on {schema}.namespace from ${to}`,
  ]
  for (const grant of grants) await tx.query(schema.fill(grant))
}
