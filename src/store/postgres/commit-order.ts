// The order of the rows of `commits`: up to which transaction no further row can appear, and which transactions prevent more.
import { numberIn, textIn } from './columns.ts'
import type { Queryable, TextRow } from './database.ts'
import type { PostgresSchema } from './schema.ts'

/*
 * A row of `commits` has the id of its transaction. Ids are assigned in order, but transactions end in any order, so a reader must stop
 * before the oldest transaction that may still commit a row. `pg_snapshot_xmin` is that point for all transactions of the server, including
 * those of other databases and programs. To leave those out, each transaction that writes `commits` holds a shared lock:
 *
 * 1. A writer takes the lock before its transaction has an id. It keeps the lock until its rows are visible, because Postgres releases
 *    locks after that.
 * 2. The reader takes a snapshot, and then reads `pg_locks`, which shows one moment. A transaction that was in progress in the snapshot
 *    and holds its id without the lock is not a writer, or has just become visible. One without an entry has ended, or Postgres has
 *    assigned its id and not entered it yet: then it is still in progress, and a holder of the lock has no id. It may still be
 *    another program's, so the result can be lower than an earlier one.
 * 3. The reader reads `commits` with a newer snapshot, which shows every writer that ended before 2.
 *
 * A writer must not force its id to be assigned early: it would then hold up readers while it waits for the session's row, and a second
 * flush of a session could get a smaller id than the first.
 */

const keyOf = ({ name }: PostgresSchema): string => `hashtextextended('pawl:commits:${name}', 0)`

/** The statement that a transaction which writes `commits` begins with, before it has written anything. */
export function joinWriters(schema: PostgresSchema): string {
  return `select pg_advisory_xact_lock_shared(${keyOf(schema)})`
}

/** The statement that waits for the writers in progress, and lets new ones begin after its own transaction. */
export function excludeWriters(schema: PostgresSchema): string {
  return `select pg_advisory_xact_lock(${keyOf(schema)})`
}

/**
 * Common table expressions: `seen`, with the snapshot; and `writing`, the writers that were in progress in it, with `txid`, `vxid` and
 * `pid`. On a replica, `pg_locks` does not show them; `horizonIn` covers that.
 */
function writing(schema: PostgresSchema): string {
  return `seen as materialized (select pg_current_snapshot() as at),
    locks as materialized (
      select virtualtransaction as vxid, pid, transactionid as id,
        locktype = 'advisory' and database = (select oid from pg_database where datname = current_database()) and objsubid = 1
          and ((classid::bigint << 32) | objid::bigint) = ${keyOf(schema)} as is_writer
      from pg_locks where granted and (locktype = 'advisory' or (locktype = 'transactionid' and mode = 'ExclusiveLock'))
    ),
    writing as (
      select txid, owner.vxid, writer.pid from seen, pg_snapshot_xip(seen.at) as txid
        left join locks owner on owner.id = txid::xid
        left join locks writer on writer.is_writer and writer.vxid = owner.vxid
      where writer.vxid is not null or (owner.vxid is null and exists (
        select from locks early where early.is_writer and not exists (select from locks own where own.id is not null and own.vxid = early.vxid)
      ) and pg_xact_status(txid) = 'in progress')
    )`
}

const HORIZON = `select case when pg_is_in_recovery() then pg_snapshot_xmin(at)
    else coalesce((select txid from writing order by txid limit 1), pg_snapshot_xmax(at)) end from seen`

/** A subquery: the id below which `commits` is complete for every later snapshot. */
export function horizonIn(schema: PostgresSchema): string {
  return `(with ${writing(schema)} ${HORIZON})`
}

/** The id below which `commits` is complete for every later snapshot. */
export async function readHorizon(database: Queryable, schema: PostgresSchema): Promise<string> {
  const [row = {}] = await database.query(`select ${horizonIn(schema)}::text as horizon`)
  return textIn(row, 'horizon')
}

/** A transaction that readers of `commits` wait for. Members are null if they are unknown, or the role must not see them. */
export interface Holder {
  /** Its server process; null for a prepared transaction. */
  pid: number | null
  /** The name that its program gave itself. */
  program: string | null
  /** The address of its client; null for a local one. */
  client: string | null
  /** Milliseconds since it began. */
  openMs: number | null
  /** What its server process waits for, such as `Lock: relation` or `Client: ClientRead`. */
  waitsFor: string | null
  /** The server processes whose locks it waits for. */
  blockedBy: number[]
}

/** Committed rows of `commits` that readers do not get yet. */
export interface FeedHoldUp {
  /** Milliseconds since the transaction of the oldest of them began. */
  forMs: number
  /** The transactions that hold them up, oldest first, at most 5. A replica does not know them. */
  holders: Holder[]
}

/** Writers hold readers up all the time, but only for milliseconds. */
const WORTH_A_REPORT_MS = 5_000
const NAMED = 5

/** What has held up readers of `commits` for seconds; null if nothing has. */
export async function readHeldUp(database: Queryable, schema: PostgresSchema): Promise<FeedHoldUp | null> {
  const [oldest] = await database.query(
    `select (extract(epoch from clock_timestamp() - at) * 1000)::bigint as for_ms from ${schema.table('commits')}
     where txid >= ${horizonIn(schema)} order by txid limit 1`,
  )
  const forMs = oldest && numberIn(oldest, 'for_ms')
  if (forMs == null || forMs < WORTH_A_REPORT_MS) return null
  const rows = await database.query(
    `with ${writing(schema)}
     select writing.pid, application_name as program, client_addr::text as client,
       (extract(epoch from clock_timestamp() - xact_start) * 1000)::bigint as open_ms,
       wait_event_type || ': ' || wait_event as waits_for, array_to_json(pg_blocking_pids(writing.pid))::text as blocked_by
     from writing left join pg_stat_activity activity on activity.pid = writing.pid
     where writing.vxid is not null order by txid limit ${NAMED}`,
  )
  return { forMs, holders: rows.map(holderOf) }
}

function holderOf(row: TextRow): Holder {
  return {
    pid: numberIn(row, 'pid'),
    program: row.program || null,
    client: row.client ?? null,
    openMs: numberIn(row, 'open_ms'),
    waitsFor: row.waits_for ?? null,
    blockedBy: row.blocked_by ? (JSON.parse(row.blocked_by) as number[]) : [],
  }
}
