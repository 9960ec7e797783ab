// Erasing: deletes a session's content permanently, on request. A row for the session and an audit row remain.
import type { EventOf } from '../../session/events.ts'
import { textIn } from '../postgres/columns.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import { keepSpent } from '../shared-budgets.ts'
import { deleteRows, type RowCounts } from './prune.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'
import { beginErasure } from '../write/erased.ts'

/** A request to erase a session. */
export interface EraseRequest {
  sessionId: string
  by: string
  reason?: string
  /** Ids of the executions whose histories are deleted as well. */
  executions: readonly string[]
  /** Agent and chain of a session without a row. Without them, such a session is left alone. */
  unknown?: { agent: string; epoch: string }
}

/** What was erased. */
export interface ErasureCounts {
  rows: RowCounts
  /** Sessions with a copy of (a part of) its past: forks of it, or of its forks. */
  forks: string[]
  /** The session that it was forked from. */
  parent: string | null
}

/** The sessions below this one that answer its agent calls and, in turn, theirs. */
export async function childrenOf(database: Queryable, { table }: PostgresSchema, sessionId: string): Promise<string[]> {
  const rows = await database.query(
    `select session_id from ${table('sessions')} where starts_with(session_id, $1) and length(root) <= $2
     order by length(session_id), session_id`,
    [safeKey(`${sessionId}/`), sessionId.length],
  )
  return rows.map((row) => textIn(row, 'session_id'))
}

const ERASE_MS = 120_000
const CONTENT = [
  'messages',
  'archived_messages',
  'events',
  'stray_events',
  'tool_calls',
  'errors',
  'token_usage',
  'checkpoints',
  'approvals',
  'recoveries',
  'custom_events',
  'slices',
  'completed_keys',
  'commits',
  'blobs',
  'deltas',
  'call_limits',
  'approval_rules',
  'approval_uses',
  'spend',
  'webhook_deliveries',
] as const

/**
 * In one transaction, deletes the session's rows and leaves a tombstone and an audit row; null for a session that never existed. A message
 * that was not sent after all may have left a large value without a session.
 */
export async function eraseSession(database: Database, schema: PostgresSchema, request: EraseRequest): Promise<ErasureCounts | null> {
  const { sessionId, by, reason, executions } = request
  const key = safeKey(sessionId)
  return database.transaction(
    async (tx) => {
      await beginErasure(tx, schema, key)
      const locked = await lockForErasure(tx, schema, key, request)
      await keepSpent(tx, schema, key)
      const rows: RowCounts = {}
      for (const table of CONTENT) rows[table] = await deleteRows(tx, schema, table, [key])
      if (!locked && Object.values(rows).every((count) => count === 0)) return null
      const { parent, epoch } = locked ?? { parent: null, epoch: '' }
      // The head stays, so that a late flush is refused and a new start continues the numbering.
      await tx.query(
        `update ${schema.table('sessions')} set status = 'closed', context = null, tags = '{}', error = null, error_raw = null, paused = null, paused_raw = null,
         incident = null, plan = null, plan_raw = null,
           raw = null, keys_of = null, current_run = null, open_seq = null, waiting = 0, erased_at = now() where session_id = $1`,
        [key],
      )
      const forks = await forksOf(tx, schema, key)
      await tx.query(`insert into ${schema.table('audit')} (action, session_id, by, details) values ('erase', $1, $2, $3::jsonb)`, [
        key,
        safeKey(by),
        JSON.stringify({ reason: reason === undefined ? null : safeKey(reason), rows, executions, epoch, forks }),
      ])
      return { rows, forks, parent }
    },
    { timeoutMs: ERASE_MS },
  )
}

/** A message to an erased session starts it again, with the first event's agent and context. */
export async function reviveErased(tx: Queryable, schema: PostgresSchema, key: string, event: EventOf<'session_started'>): Promise<void> {
  const { agent, context, tags, at } = event
  const safe = sanitiser()
  const values = [key, safe.key(agent), safe.json(context), tags.map((tag) => safe.key(tag)), new Date(at).toISOString()]
  await tx.query(
    `update ${schema.table('sessions')} set agent = $2, context = $3::jsonb, tags = $4, created_at = $5, raw = $6,
       erased_at = null, pruned_at = null, parent = null, forked_seq = null where session_id = $1`,
    [...values, safe.raw({ agent, context, tags })],
  )
}

/** Locks the session's row, or creates one if only histories exist; returns its parent and its chain; undefined if there is no session. */
async function lockForErasure(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  { unknown }: EraseRequest,
): Promise<{ parent: string | null; epoch: string } | undefined> {
  const sessions = schema.table('sessions')
  if (unknown) {
    // The pages of lists continue after a time in milliseconds.
    const now = `date_trunc('milliseconds', now())`
    await tx.query(
      `insert into ${sessions} (session_id, agent, status, epoch, flushed_seq, digest, created_at, updated_at)
       values ($1, $2, 'closed', $3, 0, '', ${now}, ${now}) on conflict (session_id) do nothing`,
      [key, safeKey(unknown.agent), safeKey(unknown.epoch)],
    )
  }
  const [row] = await tx.query(`select parent, epoch from ${sessions} where session_id = $1 for update`, [key])
  return row && { parent: row.parent ?? null, epoch: row.epoch ?? '' }
}

/** Looks through forks that were erased: their own forks still have a copy. */
async function forksOf(tx: Queryable, schema: PostgresSchema, key: string): Promise<string[]> {
  const sessions = schema.table('sessions')
  const rows = await tx.query(
    `with recursive forks as (
       select session_id from ${sessions} where copied_from = $1
       union
       select child.session_id from ${sessions} child join forks on child.copied_from = forks.session_id
     ) select session_id from forks where session_id <> $1 and not exists (
       select from ${schema.table('audit')} audit where action = 'erase' and audit.session_id = forks.session_id
     ) order by session_id`,
    [key],
  )
  return rows.map((row) => row.session_id ?? '')
}
