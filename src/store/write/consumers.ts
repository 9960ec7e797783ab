// Consumers of the feed, each active in one process at a time: which process holds the lease, and how far it has come. Times are those of
// the database's clock.
import { textIn } from '../postgres/columns.ts'
import { horizonIn } from '../postgres/commit-order.ts'
import type { Queryable } from '../postgres/database.ts'
import { safeKey } from '../postgres/sanitise.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { Key } from '../filters.ts'

/** A consumer of the feed, in one process. */
export interface Consumer {
  /** The name of the consumer: one process at a time is active under it. */
  name: string
  /** The process. */
  holder: string
  /** Processes that are known to be dead: this one takes their leases over at once. */
  succeeds?: readonly string[] | undefined
}

/** A part of the feed, from one place to another. */
export interface FeedStretch {
  from: Key
  to: Key
}

/** See `Store.leaseFeed`. A new consumer begins with the events that are stored from then on. */
export async function leaseFeed(
  database: Queryable,
  schema: PostgresSchema,
  { name, holder, succeeds = [] }: Consumer,
  forMs: number,
): Promise<Key | null> {
  const [row] = await database.query(
    `insert into ${schema.table('consumers')} as consumer (name, holder, held_until, place)
     values ($1, $2, now() + make_interval(secs => $3::float8 / 1000), jsonb_build_array(${horizonIn(schema)}::text, '', 0))
     on conflict (name) do update set holder = excluded.holder, held_until = excluded.held_until
     where consumer.holder = excluded.holder or consumer.held_until < now() or consumer.holder = any($4::text[])
     returning place`,
    [safeKey(name), safeKey(holder), forMs, succeeds.map(safeKey)],
  )
  return row ? (JSON.parse(textIn(row, 'place')) as Key) : null
}

/** See `Store.passFeed`. */
export async function passFeed(
  database: Queryable,
  schema: PostgresSchema,
  { name, holder }: Consumer,
  passed: FeedStretch,
  forMs: number,
): Promise<boolean> {
  const rows = await database.query(
    `update ${schema.table('consumers')} set place = $3::jsonb, held_until = now() + make_interval(secs => $5::float8 / 1000), updated_at = now()
     where name = $1 and holder = $2 and place = $4::jsonb returning name`,
    [safeKey(name), safeKey(holder), JSON.stringify(passed.to), JSON.stringify(passed.from), forMs],
  )
  return rows.length > 0
}

/** See `Store.releaseFeed`. */
export async function releaseFeed(database: Queryable, schema: PostgresSchema, { name, holder }: Consumer): Promise<void> {
  await database.query(`update ${schema.table('consumers')} set held_until = now() where name = $1 and holder = $2`, [
    safeKey(name),
    safeKey(holder),
  ])
}
