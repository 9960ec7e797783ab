// A session's row for a flush: locked, with the head and the state of the projection.
import { usageIn } from '../postgres/columns.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import { claimNamespace, recordedNamespace, refuseForeign } from '../postgres/namespace.ts'
import { breakingMigrations, refuseTooNew } from '../postgres/too-new.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { Plan } from '../../session/built-in-tools/plan.ts'
import type { Incident } from '../project/incidents.ts'
import { newSessionColumns, type SessionColumns } from '../project/session-columns.ts'
import type { SessionRow, StoredHead } from '../rows.ts'
import { sanitiser } from '../postgres/sanitise.ts'
import type { EventOf, SessionStatus } from '../../session/events.ts'

/** A session's row under the flush's lock. */
export interface LockedSession {
  agent: string
  head: StoredHead
  columns: SessionColumns
  /** The `model_completed` whose results are not all stored. */
  openSeq: number | null
  /** Whether its content was erased and it has not started again. */
  erased: boolean
}

/** What a writer knows about itself. */
export interface WriterIdentity {
  /** The migrations that its release has; undefined skips the check. */
  known: readonly string[] | undefined
  /** Its Temporal namespace; undefined skips the check. */
  namespace: string | undefined
}

/**
 * Locks the session's row; undefined if there is none. Records the namespace of the first writer.
 * @throws StoreError `store_too_new` if there is a breaking migration that the writer does not know; `foreign_namespace`.
 */
export async function lockSession(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  { known, namespace }: WriterIdentity,
): Promise<LockedSession | undefined> {
  const [row] = await tx.query(
    `select breaking.names as unknown, ${recordedNamespace(schema)} as namespace, held.* from (${breakingMigrations(schema, '$2')}) breaking left join lateral (
       select agent, status, epoch, flushed_seq, digest, run, current_run, turns, open_seq, coalesce(error_raw, error::text) as error, incident::text as incident,
         coalesce(plan_raw, plan::text) as plan,
         coalesce(paused_raw, paused::text) as paused,
         input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, web_search_requests, usd, spent_tokens, spent_usd, model, provider, checkpoint,
         parent, forked_seq, root, (erased_at is not null)::text as erased
       from ${schema.table('sessions')} where session_id = $1 for update
     ) held on true`,
    [key, known ?? null],
    { often: true },
  )
  refuseTooNew(schema, row?.unknown)
  if (namespace !== undefined) {
    refuseForeign(schema, namespace, row?.namespace)
    if (row?.namespace == null) await claimNamespace(tx, schema, namespace)
  }
  return row?.epoch == null ? undefined : lockedOf(row)
}

function lockedOf(row: TextRow): LockedSession {
  return {
    agent: row.agent ?? '',
    head: { epoch: row.epoch ?? '', seq: Number(row.flushed_seq), digest: row.digest ?? '' },
    openSeq: row.open_seq == null ? null : Number(row.open_seq),
    erased: row.erased === 'true',
    columns: {
      ...newSessionColumns(),
      status: row.status as SessionStatus,
      run: Number(row.run),
      currentRun: row.current_run == null ? null : Number(row.current_run),
      turns: Number(row.turns),
      error: row.error ? (JSON.parse(row.error) as SessionRow['error']) : null,
      incident: row.incident ? (JSON.parse(row.incident) as Incident) : null,
      plan: row.plan ? (JSON.parse(row.plan) as Plan) : null,
      paused: row.paused ? (JSON.parse(row.paused) as SessionRow['paused']) : null,
      usage: usageIn(row),
      usd: row.usd == null ? null : Number(row.usd),
      spent: { tokens: Number(row.spent_tokens), usd: Number(row.spent_usd) },
      model: row.model ?? null,
      provider: row.provider ?? null,
      checkpoint: Number(row.checkpoint),
      forkedFrom: row.parent == null ? null : { sessionId: row.parent, seq: Number(row.forked_seq) },
      root: row.root ?? null,
    },
  }
}

/** Creates the session's row from its first event; undefined if another flusher was faster. `before`: the point before that event. */
export async function createSession(
  tx: Queryable,
  schema: PostgresSchema,
  key: string,
  before: StoredHead,
  first: EventOf<'session_started'>,
): Promise<LockedSession | undefined> {
  const { agent, context, tags } = first
  const safe = sanitiser()
  const at = new Date(first.at).toISOString()
  const values = [key, safe.key(agent), before.epoch, before.seq, before.digest, safe.json(context), tags.map((tag) => safe.key(tag)), at]
  const created = await tx.query(
    `insert into ${schema.table('sessions')}
       (session_id, agent, status, epoch, flushed_seq, digest, origin_seq, context, tags, created_at, updated_at, raw)
     values ($1, $2, 'idle', $3, $4, $5, $4, $6::jsonb, $7, $8, $8, $9)
     on conflict (session_id) do nothing returning 1 as created`,
    [...values, safe.raw({ agent, context, tags })],
  )
  if (created.length === 0) return undefined
  return { agent: safe.key(agent), head: before, openSeq: null, erased: false, columns: newSessionColumns() }
}
