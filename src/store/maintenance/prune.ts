// Pruning: archives the messages of closed sessions and keeps a row with their numbers; also deletes old archived messages.
import type { Database, Queryable, TextRow } from '../postgres/database.ts'
import { jsonIn, textIn } from '../postgres/columns.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { BlobPlace } from '../rows.ts'
import { blobOf } from '../../session/blobs.ts'
import { collectKeys, keepKeys, storedEvents } from './completed-keys.ts'

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
  /**
   * Their rows by table, as `PrunedBatch` reports them, except for `completed_keys`: which keys are kept is known only when the events are
   * read.
   */
  rows: RowCounts
  /** What would then be deleted from the archive. */
  archive: ArchiveBatch
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
  'webhook_deliveries',
] as const

/**
 * How long something waits for a worker at most: a session that a worker has loaded, for another worker that continues it; a large value,
 * for the record of its message or of its call.
 */
const WAITS = "interval '30 days'"

/**
 * The sessions that may be pruned: closed, not changed since `$1`, not pruned or erased since they changed, and without messages that are still
 * to be delivered: a session that was cancelled or terminated keeps these. If a row was touched long after
 * its newest event, or just now, the session is being resumed: its workflow has read what is stored, and its next events continue it.
 */
const isOld = (schema: PostgresSchema, row: string): string => `(${row}.status = 'closed' and ${row}.updated_at < $1
  and not exists (select from ${schema.table('messages')} kept where kept.session_id = ${row}.session_id and kept.kind = 'scheduled')
  and (${row}.flushed_at < least(${row}.updated_at + interval '1 hour', now() - interval '10 minutes') or ${row}.flushed_at < now() - ${WAITS}))`

const isGone = (row: string): string =>
  `(coalesce(${row}.pruned_at >= ${row}.updated_at, false) or coalesce(${row}.erased_at >= ${row}.updated_at, false))`

/** A session may be pruned only together with its tree: its caller may ask it again, or it may still wait for one that answers it. */
const prunable = (schema: PostgresSchema): string => `${isOld(schema, 'sessions')} and not ${isGone('sessions')} and not exists (
    select from ${schema.table('sessions')} other
    where (other.root = coalesce(sessions.root, sessions.session_id) or other.session_id = sessions.root)
      and not ${isOld(schema, 'other')} and not ${isGone('other')})`

/** Prunes at most `limit` sessions that were not changed since `before`, oldest first, in one transaction. */
export async function pruneBatch(
  database: Database,
  schema: PostgresSchema,
  { before, limit, by }: { before: Date; limit: number; by?: string },
): Promise<PrunedBatch> {
  return database.transaction(
    async (tx) => {
      // A row that a flush or a fork has locked is left for a later batch.
      const found = await tx.query(
        `select session_id from ${schema.table('sessions')} sessions where ${prunable(schema)}
         order by updated_at limit $2 for update skip locked`,
        [before.toISOString(), limit],
      )
      const sessions = found.map((row) => row.session_id ?? '')
      const strays = sessions.length < limit ? await deleteStrayBlobs(tx, schema) : 0
      if (sessions.length + strays === 0) return { sessions, rows: {} }
      const rows: RowCounts = { archived_messages: await archiveMessages(tx, schema, sessions), completed_keys: 0 }
      const recorded: RecordedValue[] = []
      for (const session of sessions) {
        const keys = await collectKeys(tx, schema, session)
        for await (const event of storedEvents(tx, schema, session)) {
          keys.add(event)
          recorded.push(...refsOf(session, blobOf(event)))
        }
        rows.completed_keys = (rows.completed_keys ?? 0) + (await keepKeys(tx, schema, session, keys))
      }
      for (const table of DELETED_TABLES) rows[table] = await deleteRows(tx, schema, table, sessions)
      rows.blobs = strays + (await deleteUnusedBlobs(tx, schema, sessions, recorded))
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
         returning gone.session_id, gone.blobs`,
        [before.toISOString(), limit],
      )
      const recorded = gone.flatMap((row) => refsOf(textIn(row, 'session_id'), ...((jsonIn(row, 'blobs') as BlobPlace[] | null) ?? [])))
      const holders = [...new Set(recorded.map(({ sessionId }) => sessionId))]
      return { messages: gone.length, blobs: holders.length > 0 ? await deleteUnusedBlobs(tx, schema, holders, recorded) : 0 }
    },
    { timeoutMs: BATCH_MS },
  )
}

/** Counts what would be pruned: all batches of sessions, and then those of the archive. */
export async function countPrunable(
  database: Database,
  schema: PostgresSchema,
  before: Date,
  archiveBefore: Date | undefined,
): Promise<Prunable> {
  const table = (name: string): string => schema.table(name)
  const [archived, messages, events] = [table('archived_messages'), table('messages'), table('events')]
  const isPruned = `in (select session_id from chosen)`
  const rowsOf = (name: string): string => `(select count(*) from ${table(name)} where session_id ${isPruned}) as ${name}`
  // The messages are moved to the archive, and the events deleted, before the values are.
  const moved = `select session_id, blobs from ${messages} where session_id ${isPruned}`
  const isOldRow = `archived_at < $2`
  const goesWithSession = unusedBlob({
    messages: `select session_id, blobs from ${archived} union all ${moved}`,
    isRecorded: `exists (${referenceIn({ events })})`,
  })
  const goesWithArchive = unusedBlob({
    messages: `select session_id, blobs from ${archived} where not ${isOldRow} union all ${moved}`,
    events: `(select session_id, json from ${events} where not session_id ${isPruned})`,
    isRecorded: `exists (${referenceIn({ messages: `select session_id, blobs from ${archived} where ${isOldRow}` })})`,
  })
  const [row = {}] = await database.transaction(
    (tx) =>
      tx.query(
        `with chosen as materialized (select session_id from ${table('sessions')} sessions where ${prunable(schema)}),
       gone as materialized (
         select session_id, sha256 from ${table('blobs')} blob where session_id ${isPruned} and ${goesWithSession}
       )
     select (select count(*) from chosen) as sessions, ${[...DELETED_TABLES, 'messages'].map(rowsOf).join(', ')},
       (select count(*) from gone) + (select count(*) from ${table('blobs')} blob where ${strayBlob(schema)}) as blobs,
       (select count(*) from ${archived} where ${isOldRow}) as old_messages,
       (select count(*) from ${table('blobs')} blob
        where session_id in (select session_id from ${archived} where ${isOldRow} and blobs is not null) and ${goesWithArchive}
          and not exists (select from gone where gone.session_id = blob.session_id and gone.sha256 = blob.sha256)) as old_blobs`,
        [before.toISOString(), archiveBefore?.toISOString() ?? '-infinity'],
      ),
    { timeoutMs: BATCH_MS },
  )
  const deleted = Object.fromEntries([...DELETED_TABLES, 'blobs'].map((name) => [name, Number(row[name])]))
  return {
    sessions: Number(row.sessions),
    rows: { archived_messages: Number(row.messages), ...deleted },
    archive: { messages: Number(row.old_messages), blobs: Number(row.old_blobs) },
  }
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

/** A large value that a deleted event or message referred to. */
interface RecordedValue {
  sessionId: string
  sha256: string
}

/** A client may have signalled a reference with any text in it. */
function refsOf(sessionId: string, ...refs: ({ sha256: string } | undefined)[]): RecordedValue[] {
  return refs.flatMap((ref) => (ref && /^[0-9a-f]{64}$/.test(ref.sha256) ? [{ sessionId, sha256: ref.sha256 }] : []))
}

/**
 * The condition that a value was stored for the first message of a session, new or erased, that never came, because its client ended first.
 */
function strayBlob(schema: PostgresSchema): string {
  return `blob.created_at < now() - ${WAITS}
    and not exists (select from ${schema.table('sessions')} session where session.session_id = blob.session_id and session.erased_at is null)`
}

async function deleteStrayBlobs(tx: Queryable, schema: PostgresSchema): Promise<number> {
  const gone = `delete from ${schema.table('blobs')} blob where ${strayBlob(schema)} returning 1`
  return counted(await tx.query(`with gone as (${gone}) select count(*) as n from gone`, []))
}

/** Deletes values of these sessions without references from archived messages or events. */
async function deleteUnusedBlobs(
  tx: Queryable,
  schema: PostgresSchema,
  sessions: readonly string[],
  recorded: readonly RecordedValue[],
): Promise<number> {
  const isUnused = unusedBlob({
    messages: `select session_id, blobs from ${schema.table('archived_messages')}`,
    events: schema.table('events'),
    isRecorded: `(blob.session_id, blob.sha256) in (select * from unnest($2::text[], $3::text[]))`,
  })
  return counted(
    await tx.query(
      `with gone as (
         delete from ${schema.table('blobs')} blob where session_id = any($1::text[]) and ${isUnused} returning 1
       ) select count(*) as n from gone`,
      [sessions, recorded.map(({ sessionId }) => sessionId), recorded.map(({ sha256 }) => sha256)],
    ),
  )
}

/**
 * The condition that a value has no reference from these messages or events. One that was stored just now stays, because its event may be
 * about to be stored; one that no event has ever referred to stays for longer.
 */
function unusedBlob({ isRecorded, ...sources }: ReferenceSources & { isRecorded: string }): string {
  const { messages, events } = sources
  return [
    `created_at < now() - interval '1 hour'`,
    `(created_at < now() - ${WAITS} or ${isRecorded})`,
    ...(messages ? [`not exists (${referenceIn({ messages })})`] : []),
    ...(events ? [`not exists (${referenceIn({ events })})`] : []),
  ].join(' and ')
}

/** Where references to values are searched: a query for messages, and a table or a query for events. */
interface ReferenceSources {
  messages?: string
  events?: string
}

/** A query for a reference to the value `blob`. */
function referenceIn({ messages, events }: ReferenceSources): string {
  return messages
    ? `select from (${messages}) message
       where message.session_id = blob.session_id and message.blobs @> jsonb_build_array(jsonb_build_object('sha256', blob.sha256))`
    : `select from ${events} event where event.session_id = blob.session_id and strpos(event.json, blob.sha256) > 0`
}

function counted([row]: readonly TextRow[]): number {
  return Number(row?.n ?? 0)
}
