// What a session resumes from after its workflow closed: its state at the stored head, as far as the store still has it.
import { defined } from '../../session/defined.ts'
import { shortHash } from '../../session/digest.ts'
import { ACCEPTED_KEPT, OVERLAP_SKIPPED } from '../../session/fold/fold.ts'
import type { SessionState } from '../../session/state.ts'
import { exactOr, textIn } from '../postgres/columns.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import { readSession } from './reader.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { findState } from './states.ts'
import type { ResumePoint } from '../store.ts'
import { safeKey } from '../postgres/sanitise.ts'

/** See `Store.resume`. */
export async function resume(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  executionId?: string,
): Promise<ResumePoint | null> {
  const key = safeKey(sessionId)
  await markLoaded(database, schema, key, executionId)
  const at = await headOf(database, schema, key)
  if (!at) return null
  const { row, seq, digest } = at
  const { state, warnings } = await stateAt(database, schema, sessionId, at)
  if (state) return { state: { ...state, accepted: await acceptedOf(database, schema, key, state) }, seq, digest, warnings }
  const session = await readSession(database, schema, sessionId)
  if (!session) return null
  const { agent, context, tags } = session
  const lost = { agent, context, tags, run: Number(row.run), checkpoint: Number(row.checkpoint), seq, digest, warnings }
  const keysOf = row.erased === 'true' ? undefined : (row.keys_of ?? undefined)
  return { lost: true, ...defined({ keysOf }), ...(row.erased === 'true' && { erased: true as const }), ...lost }
}

/** See `Store.state`. */
export async function readStoredState(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<SessionState | null> {
  const at = await headOf(database, schema, safeKey(sessionId))
  return (at && (await stateAt(database, schema, sessionId, at)).state) ?? null
}

interface Head {
  key: string
  row: TextRow
  seq: number
  digest: string
}

async function headOf(database: Queryable, schema: PostgresSchema, key: string): Promise<Head | undefined> {
  const [row] = await database.query(
    `select flushed_seq, digest, run, checkpoint, keys_of, coalesce(forked_seq, 0) as forked_seq, (erased_at is not null)::text as erased
     from ${schema.table('sessions')} where session_id = $1`,
    [key],
  )
  const seq = Number(row?.flushed_seq ?? 0)
  return row && seq > 0 ? { key, row, seq, digest: textIn(row, 'digest') } : undefined
}

function stateAt(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  { key, row, seq, digest }: Head,
): ReturnType<typeof findState> {
  return findState(database, schema, { sessionId, key, head: { seq, digest }, forkedSeq: Number(row.forked_seq) })
}

/** SQLSTATE of a write to a read-only database. Such a database is not pruned, either. */
const READ_ONLY = '25006'

/** See `Store.lastExecution`. */
export async function lastExecution(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
): Promise<{ executionId: string | null; erasedAt: number | null }> {
  const [row] = await database.query(
    `select coalesce(execution_id, epoch) as execution_id, extract(epoch from erased_at) * 1000 as erased_at
     from ${schema.table('sessions')} where session_id = $1`,
    [safeKey(sessionId)],
  )
  const { execution_id: executionId = null, erased_at: erasedAt = null } = row ?? {}
  return { executionId, erasedAt: erasedAt === null ? null : Number(erasedAt) }
}

/** Touches the row, so that it is not pruned before the session flushes to it. Waits for a prune in progress. */
async function markLoaded(database: Queryable, schema: PostgresSchema, key: string, executionId: string | undefined): Promise<void> {
  try {
    await database.query(
      `update ${schema.table('sessions')} set flushed_at = now(), execution_id = coalesce($2, execution_id) where session_id = $1`,
      [key, executionId ?? null],
    )
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } }
    if (cause?.code !== READ_ONLY) throw error
  }
}

/** The hashes of the newest accepted message ids, as the fold would have kept them. */
async function acceptedOf(database: Queryable, schema: PostgresSchema, key: string, state: SessionState): Promise<string[]> {
  const { origin, forkedFrom, seq } = state
  const select = (table: string) =>
    `select seq, message_id, raw from ${schema.table(table)} where session_id = $1 and kind in ('user', 'scheduled') and seq > $2 and seq <= $3`
  // A message that a rollback removed can be sent again.
  const archived = `${select('archived_messages')} and why <> 'rolled_back'`
  // An occurrence that was skipped has only its event. No text can contain the quotation marks unescaped.
  const skipped = `select seq, '' as message_id, json as raw from ${schema.table('events')}
    where session_id = $1 and type = 'message_rejected' and seq > $2 and seq <= $3 and strpos(json, $5) > 0 and strpos(json, '"messageId":') > 0`
  const rows = await database.query(
    `select message_id, raw from (${select('messages')} union all ${archived} union all ${skipped}) received order by seq desc limit $4`,
    [key, Math.max(origin?.seq ?? 0, forkedFrom?.seq ?? 0), seq, ACCEPTED_KEPT, `"code":"${OVERLAP_SKIPPED}"`],
  )
  return rows.map((row) => shortHash(exactOr(row.raw, () => ({ messageId: textIn(row, 'message_id') })).messageId)).reverse()
}
