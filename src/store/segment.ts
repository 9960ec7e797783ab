// The write of one segment of a session's events: one statement that brings events and rows into all tables.
import type { LogEntry, SessionEvent } from '../session/events.ts'
import { insertRows, newStatement, recordset, type Statement, textOfStatement } from './bulk.ts'
import type { Queryable } from './database.ts'
import type { Projection, Rows } from './projections.ts'
import type { Schema } from './schema.ts'
import type { StoredHead } from './store.ts'
import { ERRORS, EVENTS, MESSAGES, type RowOf, TAKEN, TOKEN_USAGE, TOOL_CALLS } from './tables.ts'
import { safeKey, sanitiser } from './text.ts'

/** An entry with the event that its text says. */
export interface ParsedEntry extends LogEntry {
  event: SessionEvent
}

/** A segment with what was projected from it. */
export interface Segment {
  key: string
  agent: string
  entries: readonly ParsedEntry[]
  rows: Rows
  projection: Projection
  head: StoredHead
}

/** One statement for all tables; the session's row and the notification come with it. */
export async function writeSegment(tx: Queryable, schema: Schema, { key, agent, entries, rows, projection, head }: Segment): Promise<void> {
  const statement = newStatement()
  const events = entries.map((entry) => eventRow(entry, head.epoch))
  const fixed = { session_id: key, agent }
  insertRows(statement, schema, { table: 'events', columns: EVENTS, rows: events, fixed: { session_id: key } })
  insertRows(statement, schema, { table: 'messages', columns: MESSAGES, rows: rows.messages, fixed })
  insertRows(statement, schema, { table: 'errors', columns: ERRORS, rows: rows.errors, fixed })
  insertRows(statement, schema, { table: 'token_usage', columns: TOKEN_USAGE, rows: rows.usage, fixed })
  insertRows(statement, schema, {
    table: 'tool_calls',
    columns: TOOL_CALLS,
    rows: [...rows.toolCalls.values()],
    fixed,
    onConflict: MERGE_CALL,
  })
  if (rows.taken.length > 0) statement.part(takeMessages(statement, schema, key, rows.taken))
  statement.part(updateSession(statement, schema, key, projection, head))
  const notify = `select pg_notify(${statement.value(schema.channel)}, ${statement.value(`${head.seq} ${key}`)})`
  await tx.query(textOfStatement(statement, notify), [...statement.values])
  if (rows.dropped) await dropRun(tx, schema, key, rows.dropped)
}

/** A call's row is written by what each event says of it: an outcome replaces the one before as a whole, all else fills in. */
const MERGE_CALL = `on conflict (session_id, call_id) do update set
  status = excluded.status,
  attempt = greatest(stored.attempt, excluded.attempt),
  worker = coalesce(excluded.worker, stored.worker),
  started_at = coalesce(excluded.started_at, stored.started_at),
  effect = coalesce(excluded.effect, stored.effect),
  idempotency_key = coalesce(excluded.idempotency_key, stored.idempotency_key),
  input = coalesce(excluded.input, stored.input),
  input_digest = coalesce(excluded.input_digest, stored.input_digest),
  issued_seq = coalesce(excluded.issued_seq, stored.issued_seq),
  raw_intent = coalesce(excluded.raw_intent, stored.raw_intent),
  ${['result', 'error', 'effect_id', 'replay_of', 'completed_at', 'raw_outcome', 'outcome_seq']
    .map((name) => `${name} = case when excluded.outcome_seq is null then stored.${name} else excluded.${name} end`)
    .join(', ')}`

function eventRow({ event, seq, digest, json }: ParsedEntry, epoch: string): RowOf<typeof EVENTS> {
  return {
    seq,
    epoch: safeKey(epoch),
    type: safeKey(event.type),
    run: ('run' in event && event.run) || null,
    turn: ('turn' in event && event.turn) || null,
    at: new Date(event.at).toISOString(),
    digest,
    json,
  }
}

function takeMessages(statement: Statement, schema: Schema, key: string, taken: Rows['taken']): string {
  return `update ${schema.table('messages')} stored
    set run = given.run, turn = given.turn, position = given.position, ordinal = given.ordinal
    from ${recordset(statement, TAKEN, taken)}
    where stored.session_id = ${statement.value(key)} and stored.kind = 'user' and stored.run is null and stored.message_id = given.message_id`
}

function updateSession(
  statement: Statement,
  schema: Schema,
  key: string,
  { session: columns, openTurn }: Projection,
  head: StoredHead,
): string {
  const { status, run, currentRun, turns, error, usage, updatedAt } = columns
  const safe = sanitiser()
  const set: Record<string, unknown> = {
    status,
    epoch: safeKey(head.epoch),
    flushed_seq: head.seq,
    digest: head.digest,
    run,
    current_run: currentRun,
    turns,
    open_seq: openTurn?.seq ?? null,
    error: error && safe.json(error),
    error_raw: error && safe.raw(error),
    ...usage,
    updated_at: new Date(updatedAt).toISOString(),
    flushed_at: new Date().toISOString(),
  }
  const assignments = Object.entries(set).map(([name, value]) => `${name} = ${statement.value(value)}`)
  return `update ${schema.table('sessions')} set ${assignments.join(', ')} where session_id = ${statement.value(key)}`
}

/** A run that is started again leaves the transcript: what users said waits again, the rest is archived. */
async function dropRun(tx: Queryable, schema: Schema, key: string, { run, seq }: NonNullable<Rows['dropped']>): Promise<void> {
  const messages = schema.table('messages')
  await tx.query(
    `update ${messages} set archived_seq = $3 where session_id = $1 and run = $2 and kind <> 'user' and archived_seq is null`,
    [key, run, seq],
  )
  await tx.query(
    `update ${messages} set run = null, turn = null, position = null, ordinal = 0 where session_id = $1 and run = $2 and kind = 'user'`,
    [key, run],
  )
}
