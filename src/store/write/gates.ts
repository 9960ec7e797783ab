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

/** A gate that is shut, or was opened early. */
export interface StoredGate {
  key: string
  /** Milliseconds until it opens; 0 if it is open. */
  forMs: number
  /** The worker that was refused. */
  by: string
  /** Milliseconds since the newest refusal. */
  refusedAgoMs: number
  /** Milliseconds since it was opened early; null if it was not. */
  openedAgoMs: number | null
}

/** See `Store.shutGates`. */
export async function shutGates(database: Queryable, schema: PostgresSchema): Promise<StoredGate[]> {
  const rows = await database.query(
    `select key, by, ${msUntil('shut_until')} as for_ms, -${msUntil('refused_at')} as refused_ms, -${msUntil('opened_at')} as opened_ms
     from ${schema.table('gates')} where shut_until > now() or opened_at > now() - interval '1 day' order by key`,
  )
  return rows.map((row) => ({
    key: textIn(row, 'key'),
    by: textIn(row, 'by'),
    forMs: Math.max(0, numberIn(row, 'for_ms') ?? 0),
    refusedAgoMs: Math.max(0, numberIn(row, 'refused_ms') ?? 0),
    openedAgoMs: numberIn(row, 'opened_ms') ?? null,
  }))
}

const msUntil = (column: string): string => `(extract(epoch from ${column} - now()) * 1000)::bigint`

/** See `Store.openGate`. */
export async function openGate(database: Queryable, schema: PostgresSchema, { key, by }: { key: string; by: string }): Promise<boolean> {
  const rows = await database.query(
    `update ${schema.table('gates')} set shut_until = now(), opened_at = now(), opened_by = $2 where key = $1 and shut_until > now()
     returning key`,
    [safeKey(key), safeKey(by)],
  )
  return rows.length > 0
}

/** See `Store.probeGate`. */
export async function probeGate(
  database: Queryable,
  schema: PostgresSchema,
  { key, everyMs }: { key: string; everyMs: number },
): Promise<boolean> {
  const rows = await database.query(
    `update ${schema.table('gates')} set probed_at = now()
     where key = $1 and (probed_at is null or probed_at <= now() - make_interval(secs => $2::float8 / 1000)) returning key`,
    [safeKey(key), everyMs],
  )
  return rows.length > 0
}
