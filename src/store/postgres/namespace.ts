// Whose sessions a Postgres schema holds: those of one Temporal namespace, by its name. A replaced Temporal server keeps that name.
import { excludeWriters } from './commit-order.ts'
import type { Database, Queryable } from './database.ts'
import { StoreError } from '../errors.ts'
import type { PostgresSchema } from './schema.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** A scalar subquery: the recorded namespace; null if none is recorded yet. */
export function recordedNamespace(schema: PostgresSchema): string {
  return `(select name from ${schema.table('namespace')})`
}

/** The recorded namespace; null if there is none, or the Postgres schema has no tables yet. */
export async function readNamespace(database: Queryable, schema: PostgresSchema): Promise<string | null> {
  const [table] = await database.query('select to_regclass($1) as found', [schema.table('namespace')])
  if (!table?.found) return null
  const [row] = await database.query(`select name from ${schema.table('namespace')}`)
  return row?.name ?? null
}

/** Records the namespace, if none is recorded. @throws StoreError `foreign_namespace` if another one is recorded. */
export async function claimNamespace(database: Queryable, schema: PostgresSchema, namespace: string): Promise<void> {
  const claimed = await database.query(
    `insert into ${schema.table('namespace')} (name) values ($1) on conflict do nothing returning name`,
    [namespace],
  )
  if (claimed.length === 0) refuseForeign(schema, namespace, await readNamespace(database, schema))
}

/** @throws StoreError `foreign_namespace` if the sessions belong to another namespace. */
export function refuseForeign({ name }: PostgresSchema, namespace: string, recorded: string | null | undefined): void {
  if (recorded == null || recorded === namespace) return
  throw new StoreError(
    'foreign_namespace',
    `The sessions in the Postgres schema "${name}" belong to the Temporal namespace "${recorded}", but this process is connected to "${namespace}". ` +
      `Use another Postgres schema or database for "${namespace}". If it has replaced "${recorded}", run \`${SUGGESTIONS.moveNamespace(namespace)}\`.`,
  )
}

/** How long a check remains valid, because an operator may move the sessions to another namespace. Flushes check in their transaction. */
const CHECKED_MS = 30_000

/**
 * Checks that the recorded namespace is this one, or that none is recorded; checks again only after a while. Without a namespace, it checks
 * nothing.
 */
export function namespaceCheck(database: Queryable, schema: PostgresSchema, namespace: string | undefined): () => Promise<void> {
  if (namespace === undefined) return () => Promise.resolve()
  let checkedAt = Number.NEGATIVE_INFINITY
  let checking: Promise<void> | undefined
  const check = async (): Promise<void> => {
    try {
      refuseForeign(schema, namespace, await readNamespace(database, schema))
      checkedAt = performance.now()
    } finally {
      checking = undefined
    }
  }
  return () => (performance.now() - checkedAt < CHECKED_MS ? Promise.resolve() : (checking ??= check()))
}

/** Moves the sessions to another namespace, and records that in `audit`; returns the previous one. */
export async function moveNamespace(database: Database, schema: PostgresSchema, namespace: string): Promise<string | null> {
  // A flush that has checked the namespace ends before it changes.
  const first = excludeWriters(schema)
  return database.transaction(
    async (tx) => {
      const before = await readNamespace(tx, schema)
      if (before === namespace) return before
      await tx.query(
        `insert into ${schema.table('namespace')} (name) values ($1) on conflict (is_only) do update set name = excluded.name, recorded_at = now()`,
        [namespace],
      )
      const details = JSON.stringify({ from: before, to: namespace })
      await tx.query(`insert into ${schema.table('audit')} (action, details) values ('namespace', $1::jsonb)`, [details])
      return before
    },
    { first },
  )
}
