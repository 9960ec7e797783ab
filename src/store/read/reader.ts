// The read side: rows for the store's callers, exact even for values that Postgres could not hold.
import type { Message } from '../../session/content.ts'
import type { LogEntry, SessionEvent, SessionStatus } from '../../session/events.ts'
import type { ToolCallStatus } from '../../session/call-facts.ts'
import type { JsonObject } from '../../session/json.ts'
import { hydrateMessageRows } from '../blobs.ts'
import { dateIn, dateOrNull, exactOr, jsonIn, ms, numberIn, textIn, usageIn } from '../postgres/columns.ts'
import type { Queryable, TextRow } from '../postgres/database.ts'
import type { BlobPlace, MessagePlace, PlanProgress } from '../rows.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import type { ErrorRow, MessageRow, SessionRow, StoredHead, ToolCallRow } from '../rows.ts'
import { safeKey } from '../postgres/sanitise.ts'

/** Maximum events of one page, by count and by bytes of JSON. */
const EVENTS_LIMIT = 1_000
const EVENTS_BYTES = 4_000_000

/** See `Store.head`. */
export async function readHead(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<StoredHead | null> {
  const [row] = await database.query(`select epoch, flushed_seq, digest from ${schema.table('sessions')} where session_id = $1`, [
    safeKey(sessionId),
  ])
  return row ? { epoch: textIn(row, 'epoch'), seq: Number(row.flushed_seq), digest: textIn(row, 'digest') } : null
}

/** A session's row; null for an unknown session. */
export async function readSession(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<SessionRow | null> {
  const [row] = await database.query(`select ${SESSION_COLUMNS} from ${schema.table('sessions')} where session_id = $1`, [
    safeKey(sessionId),
  ])
  return row ? { ...sessionOf(row), sessionId } : null
}

export const SESSION_COLUMNS = `session_id, agent, status, epoch, run, turns, context, to_json(tags) as tags,
  coalesce(error_raw, error::text) as error, coalesce(paused_raw, paused::text) as paused, flushed_seq, raw,
  input_tokens, output_tokens, cache_creation_input_tokens, cache_read_input_tokens, web_search_requests, ${ms('created_at')}, ${ms('updated_at')}`

export function sessionOf(row: TextRow): SessionRow {
  const exact = exactOr<Pick<SessionRow, 'agent' | 'context' | 'tags'>>(row.raw, () => ({
    agent: textIn(row, 'agent'),
    context: jsonIn(row, 'context'),
    tags: jsonIn(row, 'tags') as string[],
  }))
  return {
    sessionId: textIn(row, 'session_id'),
    ...exact,
    status: textIn(row, 'status') as SessionStatus,
    epoch: textIn(row, 'epoch'),
    run: Number(row.run),
    turns: Number(row.turns),
    error: jsonIn(row, 'error') as SessionRow['error'],
    paused: jsonIn(row, 'paused') as SessionRow['paused'],
    usage: usageIn(row),
    flushedSeq: Number(row.flushed_seq),
    createdAt: dateIn(row, 'created_at'),
    updatedAt: dateIn(row, 'updated_at'),
  }
}

export const PLAN_COLUMNS = `plan_steps, plan_done, plan ->> 'version' as plan_version, plan ->> 'objective' as plan_objective`

export function planIn(row: TextRow): PlanProgress | null {
  if (row.plan_steps == null) return null
  return {
    version: Number(row.plan_version),
    objective: textIn(row, 'plan_objective'),
    steps: Number(row.plan_steps),
    done: Number(row.plan_done),
  }
}

/** See `Store.locateMessage`. */
export async function locateMessage(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  messageId: string,
): Promise<MessagePlace> {
  const [row = {}] = await database.query(
    `select
       (select max(seq) from ${schema.table('messages')} where session_id = $1 and message_id = $2) as recorded,
       -- Its id stays accepted, so it is the same message.
       (select max(seq) from ${schema.table('archived_messages')} as old where session_id = $1 and message_id = $2 and why = 'unscheduled'
          and exists (select from ${schema.table('events')} as e where e.session_id = $1 and e.seq = old.seq)) as unscheduled,
       -- Only if the former finds nothing: this reads all of the session's events.
       (select max(seq) from ${schema.table('events')}
          where session_id = $1 and type = 'message_rejected' and strpos(json, $3) > 0
            and not exists (select from ${schema.table('messages')} where session_id = $1 and message_id = $2)) as refused,
       (select max(seq) from ${schema.table('archived_messages')} where session_id = $1 and message_id = $2) as archived,
       (select max(seq) from ${schema.table('archived_messages')} as old where session_id = $1 and message_id = $2
          and exists (select from ${schema.table('events')} as e where e.session_id = $1 and e.seq = old.seq)) as readable,
       flushed_seq, (erased_at is not null)::text as is_erased, (pruned_at >= updated_at)::text as is_pruned
     from (select) as one left join ${schema.table('sessions')} on session_id = $1`,
    [safeKey(sessionId), safeKey(messageId), `"messageId":${JSON.stringify(messageId)}`],
  )
  const recorded = numberIn(row, 'recorded') ?? numberIn(row, 'unscheduled')
  if (recorded !== null) return { after: recorded - 1 }
  const after = numberIn(row, 'flushed_seq') ?? 0
  // An archived message has its events unless they were pruned, so the outcome of its run can be read.
  const readable = numberIn(row, 'readable')
  const refused = numberIn(row, 'refused')
  if (refused !== null && refused > (readable ?? 0)) return { after: refused - 1, refusedBefore: after }
  if (readable !== null) return { after, archived: readable - 1 }
  if (numberIn(row, 'archived') !== null) return { after, gone: 'pruned', isPruned: true }
  if (row.is_erased === 'true') return { after, gone: 'erased' }
  return { after, ...(row.is_pruned === 'true' && { gone: 'pruned' as const }) }
}

/** A page of a session's events. */
export interface EventRange {
  /** Only events above this `seq`; default 0. */
  after?: number
  /** Maximum number; default 1,000. */
  limit?: number
  /** Approximate maximum bytes of JSON, but at least one event; default 4,000,000. */
  bytes?: number
  /** Only events of these types; default all. */
  types?: readonly SessionEvent['type'][]
}

/** See `Store.events`. */
export function readEvents(database: Queryable, schema: PostgresSchema, sessionId: string, options?: EventRange): Promise<SessionEvent[]> {
  return eventsAt(database, schema, safeKey(sessionId), options)
}

/** The same for the id as the store has it. */
export async function eventsAt(
  database: Queryable,
  schema: PostgresSchema,
  key: string,
  options: EventRange = {},
): Promise<SessionEvent[]> {
  const rows = await eventRows(database, schema, key, options)
  return rows.map((row) => JSON.parse(textIn(row, 'json')) as SessionEvent)
}

/** See `Store.entries`. */
export async function readEntries(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  options: EventRange = {},
): Promise<LogEntry[]> {
  const rows = await eventRows(database, schema, safeKey(sessionId), options)
  let prev = rows[0]?.prev ?? ''
  return rows.map((row) => {
    const entry = { seq: Number(row.seq), prev, digest: textIn(row, 'digest'), json: textIn(row, 'json') }
    prev = entry.digest
    return entry
  })
}

function eventRows(database: Queryable, schema: PostgresSchema, key: string, options: EventRange): Promise<TextRow[]> {
  const { after = 0, limit = EVENTS_LIMIT, bytes = EVENTS_BYTES, types } = options
  const events = schema.table('events')
  return database.query(
    `select seq, digest, json, (select digest from ${events} where session_id = $1 and seq = $2) as prev
     from (
       select seq, digest, json, sum(octet_length(json)) over (order by seq) - octet_length(json) as bytes_before
       from (
         select seq, digest, json from ${events} where session_id = $1 and seq > $2${types ? ' and type = any($5::text[])' : ''}
         order by seq limit $3
       ) as next
     ) as counted
     where bytes_before < $4::bigint order by seq`,
    [key, after, limit, bytes, ...(types ? [types] : [])],
  )
}

/** See `Store.messages`. */
export async function readMessages(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<MessageRow[]> {
  const rows = await database.query(
    `select ${MESSAGE_COLUMNS}, blobs from ${schema.table('messages')} where session_id = $1
     order by position nulls last, ordinal, seq`,
    [safeKey(sessionId)],
  )
  const found = rows.map((row) => ({ row: messageOf(row), places: (jsonIn(row, 'blobs') as BlobPlace[] | null) ?? [] }))
  return hydrateMessageRows(database, schema, sessionId, found)
}

/** See `Store.sentMessage`. */
export async function readSentMessage(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  messageId: string,
): Promise<Pick<MessageRow, 'content' | 'metadata'> | null> {
  const [row] = await database.query(
    `select ${MESSAGE_COLUMNS}, blobs from ${schema.table('messages')}
     where session_id = $1 and message_id = $2 and kind in ('user', 'scheduled') order by seq desc limit 1`,
    [safeKey(sessionId), safeKey(messageId)],
  )
  if (!row) return null
  const stored = messageOf(row)
  const places = (jsonIn(row, 'blobs') as BlobPlace[] | null) ?? []
  const [message] = await hydrateMessageRows(database, schema, sessionId, [{ row: stored, places }])
  const isLost = places.length > 0 && message?.content === stored.content
  return isLost ? null : (message ?? null)
}

export const MESSAGE_COLUMNS = `seq, message_id, run, turn, role, kind, raw, ${ms('at')}, ${ms('scheduled_for')},
  case when raw is null then content end as content, case when raw is null then metadata end as metadata,
  case when raw is null then by end as by`

export function messageOf(row: TextRow): MessageRow {
  return {
    ...exactOr<Pick<MessageRow, 'messageId' | 'content' | 'metadata' | 'by'>>(row.raw, () => ({
      messageId: textIn(row, 'message_id'),
      content: jsonIn(row, 'content') as Message['content'],
      metadata: jsonIn(row, 'metadata') as JsonObject | null,
      by: row.by ?? null,
    })),
    seq: Number(row.seq),
    run: numberIn(row, 'run'),
    turn: numberIn(row, 'turn'),
    role: textIn(row, 'role') as MessageRow['role'],
    kind: textIn(row, 'kind') as MessageRow['kind'],
    at: dateIn(row, 'at'),
    scheduledFor: dateOrNull(row, 'scheduled_for'),
  }
}

/** The columns that `toolCallOf` reads. */
export const CALL_COLUMNS = `call_id, run, turn, call_index, tool, effect, idempotency_key, input, model_input, status, attempt, worker, result, error,
  effect_id, replay_of, raw_intent, raw_outcome, ${ms('issued_at')}, ${ms('completed_at')}`

export function toolCallOf(row: TextRow): ToolCallRow {
  return {
    callId: textIn(row, 'call_id'),
    run: Number(row.run),
    turn: Number(row.turn),
    index: Number(row.call_index),
    effect: row.effect ?? 'unknown',
    ...exactOr<Pick<ToolCallRow, 'tool' | 'key' | 'input'>>(row.raw_intent, () => ({
      tool: textIn(row, 'tool'),
      key: row.idempotency_key ?? null,
      input: jsonIn(row, 'input'),
    })),
    modelInput: row.model_input == null ? null : jsonIn(row, 'model_input'),
    status: textIn(row, 'status') as ToolCallStatus,
    attempt: Number(row.attempt),
    worker: row.worker ?? null,
    ...exactOr<Pick<ToolCallRow, 'result' | 'error' | 'effectId'>>(row.raw_outcome, () => ({
      result: jsonIn(row, 'result'),
      error: jsonIn(row, 'error') as ToolCallRow['error'],
      effectId: row.effect_id ?? null,
    })),
    replayOf: row.replay_of ?? null,
    issuedAt: dateIn(row, 'issued_at'),
    completedAt: row.completed_at == null ? null : dateIn(row, 'completed_at'),
  }
}

export const ERROR_COLUMNS = `seq, run, turn, context, call_id, attempt, class, code, message, stack, retryable::text as retryable, worker, model, phase,
  ended_by, outcome, raw, ${ms('at')}, ${ms('ended_at')}`

export function errorOf(row: TextRow): ErrorRow {
  return {
    seq: Number(row.seq),
    run: numberIn(row, 'run'),
    turn: numberIn(row, 'turn'),
    attempt: numberIn(row, 'attempt'),
    retryable: row.retryable === 'true',
    phase: row.phase === 'stream' ? 'stream' : null,
    at: dateIn(row, 'at'),
    endedAt: dateOrNull(row, 'ended_at'),
    endedBy: (row.ended_by ?? null) as ErrorRow['endedBy'],
    outcome: (row.outcome ?? null) as ErrorRow['outcome'],
    ...exactOr<Pick<ErrorRow, 'context' | 'callId' | 'class' | 'code' | 'message' | 'stack' | 'worker' | 'model'>>(row.raw, () => ({
      context: textIn(row, 'context'),
      callId: row.call_id ?? null,
      class: textIn(row, 'class'),
      code: row.code ?? null,
      message: textIn(row, 'message'),
      stack: row.stack ?? null,
      worker: row.worker ?? null,
      model: row.model ?? null,
    })),
  }
}
