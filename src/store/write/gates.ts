// The rate gates of providers, which workers share. Times are those of the database's clock, because workers' clocks differ.
import { numberIn, textIn } from '../postgres/columns.ts'
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'

/** See `Store.shutGate`. */
export async function shutGate(
  database: Queryable,
  schema: PostgresSchema,
  gate: { key: string; forMs: number; by: string },
): Promise<void> {
  await database.query(
    `insert into ${schema.table('gates')} as gate (key, shut_until, by) values ($1, now() + make_interval(secs => $2::float8 / 1000), $3)
     on conflict (key) do update set shut_until = excluded.shut_until, by = excluded.by, refused_at = now()
     where gate.shut_until < excluded.shut_until`,
    [safeKey(gate.key), gate.forMs, safeKey(gate.by)],
  )
}

/** See `Store.shutGates`. */
export async function shutGates(database: Queryable, schema: PostgresSchema): Promise<{ key: string; forMs: number }[]> {
  const rows = await database.query(
    `select key, (extract(epoch from shut_until - now()) * 1000)::bigint as for_ms from ${schema.table('gates')} where shut_until > now()`,
  )
  return rows.map((row) => ({ key: textIn(row, 'key'), forMs: numberIn(row, 'for_ms') ?? 0 }))
}
