// Pruning: archives the messages of closed sessions and keeps a row with their numbers; also deletes old archived messages.
import type { Database, Queryable, TextRow } from '../postgres/database.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { keepKeys } from './completed-keys.ts'

/** Rows by table. */
export type RowCounts = Record<string, number>

/** What one batch pruned. */
export interface PrunedBatch {
  sessions: string[]
  /** Deleted rows; for `archived_messages`, rows moved there, and for `completed_keys`, keys of effects that are kept. */
  rows: RowCounts
}

/** What one batch deleted from the archive. */
export interface ArchiveBatch {
  messages: number
  blobs: number
}

/** What could be pruned now. */
export interface Prunable {
  sessions: number
  /** Their messages, which would be moved. */
  messages: number
  /** Their events, which would be deleted. */
  events: number
  /** Archived messages that are older than the archive keeps them. */
  archived: number
}

/** A batch of large sessions may take this long; it locks only these sessions. */
const BATCH_MS = 60_000
/** Tables whose rows are all deleted. `messages` are moved; `blobs` stay as long as an archived message refers to them. */
const DELETED_TABLES = [
  'events',
  'tool_calls',
  'errors',
  'token_usage',
  'checkpoints',
  'approvals',
  'custom_events',
  'slices',
  'commits',
] as const

/**
 * The sessions that may be pruned: closed, not changed since `$1`, not pruned or erased since they changed. A session whose row was
 * touched just now is being resumed: its workflow has read what is stored and is about to flush.
 */
const PRUNABLE = `status = 'closed' and updated_at < $1 and flushed_at < now() - interval '10 minutes'
  and (pruned_at is null or pruned_at < updated_at) and (erased_at is null or erased_at < updated_at)`

/** Prunes at most `limit` sessions that were not changed since `before`, oldest first, in one transaction. */
export async function pruneBatch(
  database: Database,
  schema: PostgresSchema,
  { before, limit, by }: { before: Date; limit: number; by?: string },
): Promise<PrunedBatch> {
  return database.transaction(
    async (tx) => {
      // A row that a flush or a fork has locked is left to a later batch.
      const found = await tx.query(
        `select session_id from ${schema.table('sessions')} where ${PRUNABLE} order by updated_at limit $2 for update skip locked`,
        [before.toISOString(), limit],
      )
      const sessions = found.map((row) => row.session_id ?? '')
      if (sessions.length === 0) return { sessions, rows: {} }
      const rows: RowCounts = { archived_messages: await archiveMessages(tx, schema, sessions), completed_keys: 0 }
      for (const session of sessions) rows.completed_keys = (rows.completed_keys ?? 0) + (await keepKeys(tx, schema, session))
      for (const table of DELETED_TABLES) rows[table] = await deleteRows(tx, schema, table, sessions)
      rows.blobs = await deleteUnusedBlobs(tx, schema, sessions)
      await tx.query(
        `update ${schema.table('sessions')} set pruned_at = now(), open_seq = null, current_run = null where session_id = any($1::text[])`,
        [sessions],
      )
      await tx.query(`insert into ${schema.table('audit')} (action, by, details) values ('prune', $1, $2::jsonb)`, [
        by ?? null,
        JSON.stringify({ before: before.toISOString(), sessions, rows }),
      ])
      return { sessions, rows }
    },
    { timeoutMs: BATCH_MS },
  )
}

/** Deletes at most `limit` messages that were archived before `before`, oldest first, and the values that only they referred to. */
export async function pruneArchiveBatch(
  database: Database,
  schema: PostgresSchema,
  { before, limit }: { before: Date; limit: number },
): Promise<ArchiveBatch> {
  return database.transaction(
    async (tx) => {
      const archived = schema.table('archived_messages')
      const gone = await tx.query(
        `delete from ${archived} gone using (
           select session_id, epoch, seq from ${archived} where archived_at < $1 order by archived_at limit $2 for update skip locked
         ) as old
         where gone.session_id = old.session_id and gone.epoch = old.epoch and gone.seq = old.seq
         returning gone.session_id, (gone.blobs is not null)::text as has_blobs`,
        [before.toISOString(), limit],
      )
      const holders = [...new Set(gone.filter((row) => row.has_blobs === 'true').map((row) => row.session_id ?? ''))]
      return { messages: gone.length, blobs: holders.length > 0 ? await deleteUnusedBlobs(tx, schema, holders) : 0 }
    },
    { timeoutMs: BATCH_MS },
  )
}

/** Counts what would be pruned. */
export async function countPrunable(
  database: Database,
  schema: PostgresSchema,
  before: Date,
  archiveBefore: Date | undefined,
): Promise<Prunable> {
  return database.transaction(
    async (tx) => {
      const chosen = `(select session_id from ${schema.table('sessions')} where ${PRUNABLE})`
      const [row = {}] = await tx.query(
        `select (select count(*) from ${schema.table('sessions')} where ${PRUNABLE}) as sessions,
           (select count(*) from ${schema.table('messages')} where session_id in ${chosen}) as messages,
           (select count(*) from ${schema.table('events')} where session_id in ${chosen}) as events,
           (select count(*) from ${schema.table('archived_messages')} where archived_at < $2) as archived`,
        [before.toISOString(), archiveBefore?.toISOString() ?? '-infinity'],
      )
      return {
        sessions: Number(row.sessions),
        messages: Number(row.messages),
        events: Number(row.events),
        archived: Number(row.archived),
      }
    },
    { timeoutMs: BATCH_MS },
  )
}

/** Deletes a table's rows of these sessions; returns their number. */
export async function deleteRows(tx: Queryable, schema: PostgresSchema, table: string, sessions: readonly string[]): Promise<number> {
  return counted(
    await tx.query(
      `with gone as (delete from ${schema.table(table)} where session_id = any($1::text[]) returning 1) select count(*) as n from gone`,
      [sessions],
    ),
  )
}

async function archiveMessages(tx: Queryable, schema: PostgresSchema, sessions: readonly string[]): Promise<number> {
  const kept = `session_id, seq, message_id, agent, run, turn, role, kind, content, metadata, by, position, ordinal, at, call_ids, blobs, raw`
  return counted(
    await tx.query(
      `with moved as (
         delete from ${schema.table('messages')} where session_id = any($1::text[]) returning ${kept}
       ), kept as (
         insert into ${schema.table('archived_messages')} (${kept}, epoch, archived_seq, why)
         select ${kept
           .split(', ')
           .map((column) => `moved.${column}`)
           .join(', ')},
           coalesce(event.epoch, session.epoch), session.flushed_seq, 'pruned'
         from moved
         join ${schema.table('sessions')} session using (session_id)
         left join ${schema.table('events')} event on event.session_id = moved.session_id and event.seq = moved.seq
         returning 1
       ) select count(*) as n from kept`,
      [sessions],
    ),
  )
}

/** Deletes values without references from archived messages or events, except recent ones, whose event may be about to be stored. */
async function deleteUnusedBlobs(tx: Queryable, schema: PostgresSchema, sessions: readonly string[]): Promise<number> {
  return counted(
    await tx.query(
      `with gone as (
         delete from ${schema.table('blobs')} blob where session_id = any($1::text[]) and created_at < now() - interval '1 hour'
           and not exists (
             select 1 from ${schema.table('archived_messages')} archived
             where archived.session_id = blob.session_id
               and archived.blobs @> jsonb_build_array(jsonb_build_object('sha256', blob.sha256)))
           and not exists (
             select 1 from ${schema.table('events')} event
             where event.session_id = blob.session_id and strpos(event.json, blob.sha256) > 0)
         returning 1
       ) select count(*) as n from gone`,
      [sessions],
    ),
  )
}

function counted([row]: readonly TextRow[]): number {
  return Number(row?.n ?? 0)
}
