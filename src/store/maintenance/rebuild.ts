// Support for rebuilds beyond flushing: starting a session's rows at a later event, and finding lost large values.
import { rootIdOf } from '../../session/agents/agent-calls.ts'
import { textIn, usageColumns } from '../postgres/columns.ts'
import type { Json } from '../../session/json.ts'
import { blobOf } from '../../session/blobs.ts'
import type { BlobRef } from '../../session/call-facts.ts'
import type { SessionEvent } from '../../session/events.ts'
import type { SessionState } from '../../session/state.ts'
import type { Database, Queryable } from '../postgres/database.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { pausedColumns, planColumns } from '../project/session-columns.ts'
import { soundState } from '../project/sound-events.ts'
import type { StoredHead } from '../rows.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'

/** A session's state after event `state.seq`, for a session whose events up to there are lost. */
export interface AdoptedState {
  /** The chain of executions that continues from it. */
  epoch: string
  state: SessionState
  /** Rolling digest of the events up to there. */
  digest: string
}

/** Starts the rows of an unknown session at `state.seq`; a known one is left unchanged. Returns the head. */
export async function adoptSession(
  database: Database,
  schema: PostgresSchema,
  sessionId: string,
  adopted: AdoptedState,
): Promise<StoredHead> {
  const key = safeKey(sessionId)
  return database.transaction(async (tx) => {
    if (await insertSession(tx, schema, key, adopted)) await insertCheckpoint(tx, schema, key, adopted)
    const [row] = await tx.query(`select epoch, flushed_seq, digest from ${schema.table('sessions')} where session_id = $1`, [key])
    return { epoch: row?.epoch ?? '', seq: Number(row?.flushed_seq), digest: row?.digest ?? '' }
  })
}

async function insertSession(tx: Queryable, schema: PostgresSchema, key: string, { epoch, state, digest }: AdoptedState): Promise<boolean> {
  const {
    agent,
    context,
    tags,
    status,
    run,
    current,
    turns,
    error,
    paused,
    plan,
    usage,
    spend,
    createdAt,
    updatedAt,
    forkedFrom,
    caller,
    checkpoint,
  } = soundState(state)
  const { seq } = state
  const safe = sanitiser()
  const safeError = sanitiser()
  const failure = error as unknown as Json
  const columns = {
    session_id: key,
    agent: safe.key(agent),
    status,
    epoch: safeKey(epoch),
    flushed_seq: seq,
    digest,
    origin_seq: seq,
    run,
    current_run: current?.run ?? null,
    turns,
    context: safe.json(context),
    tags: tags.map((tag) => safe.key(tag)),
    error: error && safeError.json(failure),
    error_raw: error && safeError.raw(failure),
    ...pausedColumns(paused ?? null),
    ...planColumns(plan?.current ?? null),
    ...usageColumns(usage),
    spent_tokens: spend?.tokens ?? 0,
    spent_usd: spend?.usd ?? 0,
    parent: forkedFrom ? safeKey(forkedFrom.sessionId) : null,
    copied_from: forkedFrom ? safeKey(forkedFrom.sessionId) : null,
    forked_seq: forkedFrom?.seq ?? null,
    root: rootIdOf(state.sessionId, caller) ?? null,
    checkpoint: checkpoint?.version ?? 0,
    created_at: new Date(createdAt).toISOString(),
    updated_at: new Date(updatedAt).toISOString(),
    raw: safe.raw({ agent, context, tags }),
  }
  const names = Object.keys(columns)
  const created = await tx.query(
    `insert into ${schema.table('sessions')} (${names.join(', ')}) values (${names.map((_, index) => `$${index + 1}`).join(', ')})
     on conflict (session_id) do nothing returning 1 as created`,
    Object.values(columns),
  )
  return created.length > 0
}

/** The adopted state becomes a checkpoint: later events are folded from there. */
async function insertCheckpoint(tx: Queryable, schema: PostgresSchema, key: string, { state }: AdoptedState): Promise<void> {
  const { checkpoint, agent, run, current, updatedAt, lastMessageId, plan, spend } = soundState(state)
  const { seq } = state
  await tx.query(
    `insert into ${schema.table('checkpoints')}
       (session_id, version, agent, run, turn, seq, up_to_seq, last_message_id, reasons, state, state_version, created_at,
        plan, spent_tokens, spent_usd)
     values ($1, $2, $3, $4, $5, $6, $6, $7, '{adopted}', $8, $9, $10, $11::jsonb, $12, $13)`,
    [
      key,
      checkpoint?.version ?? 0,
      safeKey(agent),
      run > 0 ? run : null,
      current?.turn ?? null,
      seq,
      lastMessageId === undefined ? null : safeKey(lastMessageId),
      JSON.stringify(state),
      state.v,
      new Date(updatedAt).toISOString(),
      planColumns(plan?.current ?? null).plan,
      spend?.tokens ?? 0,
      spend?.usd ?? 0,
    ],
  )
}

/** A large value that the store lacks, and the event that refers to it. */
export type MissingValue = Omit<BlobRef, 'preview'> & { seq: number }

/** Events with references to large values that are read at a time. Each may have much text besides. */
const REFERENCES = 50

/** The values that the session's stored events refer to and the store lacks. */
export async function missingValues(database: Database, schema: PostgresSchema, sessionId: string): Promise<MissingValue[]> {
  const key = safeKey(sessionId)
  const missing: MissingValue[] = []
  for (let after = 0; ; ) {
    // A quotation mark within a text is escaped, so this finds members only.
    const rows = await database.query(
      `select seq, json from ${schema.table('events')} where session_id = $1 and seq > $2 and strpos(json, '"blob":{') > 0
       order by seq limit ${REFERENCES}`,
      [key, after],
    )
    const refs = rows.flatMap((row) => {
      const blob = blobOf(JSON.parse(textIn(row, 'json')) as SessionEvent)
      return blob ? [{ seq: Number(row.seq), sha256: blob.sha256, bytes: blob.bytes }] : []
    })
    const stored = await database.query(`select sha256 from ${schema.table('blobs')} where session_id = $1 and sha256 = any($2::text[])`, [
      key,
      refs.map(({ sha256 }) => safeKey(sha256)),
    ])
    const known = new Set(stored.map((row) => row.sha256))
    missing.push(...refs.filter(({ sha256 }) => !known.has(safeKey(sha256))))
    if (rows.length < REFERENCES) return missing
    after = Number(rows.at(-1)?.seq)
  }
}

/** The event after which the session's rows begin; 0 if they begin with its first event. */
export async function originOf(database: Database, schema: PostgresSchema, sessionId: string): Promise<number> {
  const [row] = await database.query(`select origin_seq from ${schema.table('sessions')} where session_id = $1`, [safeKey(sessionId)])
  return Number(row?.origin_seq ?? 0)
}

/** Writes the audit row of a rebuild. */
export async function noteRebuild(database: Database, schema: PostgresSchema, by: string | undefined, details: object): Promise<void> {
  await database.query(`insert into ${schema.table('audit')} (action, by, details) values ('rebuild', $1, $2::jsonb)`, [
    by === undefined ? null : safeKey(by),
    JSON.stringify(details),
  ])
}
