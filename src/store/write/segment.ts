// Writes one segment of a session's events: one statement inserts events and rows into all tables.
import { usageColumns } from '../postgres/columns.ts'
import type { Json } from '../../session/json.ts'
import { insertRows, newStatement, recordset, type Statement, textOfStatement } from '../postgres/insert-rows.ts'
import type { Queryable } from '../postgres/database.ts'
import type { ParsedEntry } from './entries.ts'
import type { ErrorEnd } from '../project/incidents.ts'
import type { Projection, ProjectedRows } from '../project/projections.ts'
import { WITH_OUTCOME } from '../project/recoveries.ts'
import type { PostgresSchema } from '../postgres/schema.ts'
import { pausedColumns, planColumns, waitingCalls } from '../project/session-columns.ts'
import type { StoredHead } from '../rows.ts'
import {
  APPROVAL_RULES,
  APPROVALS,
  CHECKPOINTS,
  CUSTOM_EVENTS,
  DECISIONS,
  ERRORS,
  EVENTS,
  MESSAGES,
  RECOVERIES,
  type RowOf,
  SPEND,
  DELIVERED,
  TAKEN,
  TOKEN_USAGE,
  TOOL_CALLS,
} from '../postgres/tables.ts'
import { safeKey, sanitiser } from '../postgres/sanitise.ts'

export type CheckpointRow = RowOf<typeof CHECKPOINTS>

/** A segment with what was projected from it. */
export interface Segment {
  key: string
  agent: string
  entries: readonly ParsedEntry[]
  rows: ProjectedRows
  checkpoints: readonly CheckpointRow[]
  projection: Projection
  head: StoredHead
  /** The execution that the events were read from, if known. */
  executionId: string | undefined
  /** The first event for the row of `commits`; undefined if there is no row, because the events are another session's. */
  commitsFrom: number | undefined
}

/** Writes all tables with one statement, including the session's row. */
export async function writeSegment(tx: Queryable, schema: PostgresSchema, segment: Segment): Promise<void> {
  const { key, agent, entries, rows, checkpoints, head } = segment
  const statement = newStatement()
  const events = entries.map((entry) => eventRow(entry, head.epoch))
  const fixed = { session_id: key, agent }
  insertRows(statement, schema, { table: 'events', columns: EVENTS, rows: events, fixed: { session_id: key } })
  insertRows(statement, schema, { table: 'messages', columns: MESSAGES, rows: rows.messages, fixed })
  insertRows(statement, schema, { table: 'errors', columns: ERRORS, rows: rows.errors, fixed, onConflict: 'on conflict do nothing' })
  insertRows(statement, schema, { table: 'token_usage', columns: TOKEN_USAGE, rows: rows.usage, fixed })
  insertRows(statement, schema, { table: 'spend', columns: SPEND, rows: rows.spend, fixed, onConflict: 'on conflict do nothing' })
  insertRows(statement, schema, { table: 'custom_events', columns: CUSTOM_EVENTS, rows: rows.customEvents, fixed })
  insertRows(statement, schema, { table: 'approvals', columns: APPROVALS, rows: rows.requests, fixed })
  insertRows(statement, schema, {
    table: 'approval_rules',
    columns: APPROVAL_RULES,
    rows: rows.rules,
    fixed,
    onConflict: 'on conflict do nothing',
  })
  insertRows(statement, schema, {
    table: 'recoveries',
    columns: RECOVERIES,
    rows: rows.recoveries,
    fixed,
    onConflict: 'on conflict do nothing',
  })
  insertCheckpoints(statement, schema, fixed, checkpoints)
  mergeCalls(statement, schema, fixed, [...rows.toolCalls.values()])
  if (rows.taken.length > 0) statement.part(takeMessages(statement, schema, key, rows.taken))
  if (rows.delivered.length > 0) statement.part(removeScheduled(statement, schema, key, rows.delivered))
  if (rows.decisions.length > 0) statement.part(decide(statement, schema, key, rows.decisions))
  for (const revoked of rows.revokedRules) statement.part(revokeRule(statement, schema, key, revoked))
  if (rows.errorEnd) statement.part(endErrors(statement, schema, key, rows.errorEnd))
  if (rows.outcome) statement.part(endRecoveries(statement, schema, key, rows.outcome))
  if (segment.commitsFrom !== undefined) statement.part(commit(statement, schema, key, segment.commitsFrom, head.seq))
  statement.part(updateSession(statement, schema, segment))
  await tx.query(textOfStatement(statement, 'select 1'), [...statement.values], { often: true })
}

/** An existing checkpoint of the same version was made from the same events. */
export function insertCheckpoints(
  statement: Statement,
  schema: PostgresSchema,
  fixed: { session_id: string; agent: string },
  rows: readonly CheckpointRow[],
): void {
  insertRows(statement, schema, { table: 'checkpoints', columns: CHECKPOINTS, rows, fixed, onConflict: 'on conflict do nothing' })
}

/** A call keeps its stored status if the events set none. Two inserts, because the two kinds are merged differently. */
function mergeCalls(
  statement: Statement,
  schema: PostgresSchema,
  fixed: Record<string, string>,
  rows: readonly RowOf<typeof TOOL_CALLS>[],
): void {
  const insert = { table: 'tool_calls', columns: TOOL_CALLS, fixed }
  const withStatus = rows.filter((row) => row.status !== null)
  const withoutStatus = rows.filter((row) => row.status === null).map((row) => ({ ...row, status: 'issued' }))
  const onConflict = `on conflict (session_id, call_id) do update set ${MERGE_CALL}`
  insertRows(statement, schema, {
    ...insert,
    rows: withStatus,
    onConflict: `${onConflict}, status = excluded.status, waiting_until = excluded.waiting_until`,
  })
  insertRows(statement, schema, { ...insert, rows: withoutStatus, onConflict })
}

const FILLED_IN = [
  'worker',
  'started_at',
  'effect',
  'idempotency_key',
  'input',
  'input_digest',
  'model_input',
  'question',
  'issued_seq',
  'resolved_by',
  'note',
]
const OUTCOME = ['result', 'error', 'effect_id', 'replay_of', 'result_blob', 'completed_at', 'raw_outcome', 'outcome_seq']

/** Merges a call's row: an outcome replaces the previous one as a whole; other columns are filled in. */
const MERGE_CALL = [
  // Of an attempt that ends with its session, no event says that it had begun: its row must not say more than a rebuild would.
  `attempt = case when excluded.outcome_seq is null then greatest(stored.attempt, excluded.attempt)
     else greatest(stored.recorded_attempt, excluded.attempt) end`,
  'recorded_attempt = greatest(stored.recorded_attempt, excluded.recorded_attempt)',
  ...FILLED_IN.map((name) => `${name} = coalesce(excluded.${name}, stored.${name})`),
  ...OUTCOME.map((name) => `${name} = case when excluded.outcome_seq is null then stored.${name} else excluded.${name} end`),
  'raw_intent = case when excluded.input is null then stored.raw_intent else excluded.raw_intent end',
  ...['progress', 'raw_progress'].map(
    (name) => `${name} = case when excluded.progress is null then stored.${name} else excluded.${name} end`,
  ),
  `approval = case when excluded.approval is null then stored.approval else coalesce(stored.approval, '{}') || excluded.approval end`,
  `milestones = case when excluded.milestones is null then stored.milestones
     else coalesce(stored.milestones, '{}') || array(select name from unnest(excluded.milestones) with ordinality as given(name, place)
       where name <> all(coalesce(stored.milestones, '{}')) order by place) end`,
].join(', ')

function eventRow({ event, seq, digest, json, adjusted }: ParsedEntry, epoch: string): RowOf<typeof EVENTS> {
  return {
    seq,
    epoch: safeKey(epoch),
    type: safeKey(event.type),
    run: ('run' in event && event.run) || null,
    turn: ('turn' in event && event.turn) || null,
    at: new Date(event.at).toISOString(),
    digest,
    json,
    adjusted: adjusted.length > 0 ? sanitiser().json(adjusted as unknown as Json) : null,
  }
}

function takeMessages(statement: Statement, schema: PostgresSchema, key: string, taken: ProjectedRows['taken']): string {
  return `update ${schema.table('messages')} stored
    set run = given.run, turn = given.turn, position = given.position, ordinal = given.ordinal
    from ${recordset(statement, TAKEN, taken)}
    where stored.session_id = ${statement.value(key)} and stored.kind = 'user' and stored.run is null and stored.message_id = given.message_id`
}

/** A message that is delivered gets another row. */
function removeScheduled(statement: Statement, schema: PostgresSchema, key: string, delivered: ProjectedRows['delivered']): string {
  return `delete from ${schema.table('messages')} stored using ${recordset(statement, DELIVERED, delivered)}
    where stored.session_id = ${statement.value(key)} and stored.kind = 'scheduled' and stored.message_id = given.message_id`
}

function decide(statement: Statement, schema: PostgresSchema, key: string, decisions: ProjectedRows['decisions']): string {
  return `update ${schema.table('approvals')} stored
    set status = given.status, decided_at = given.decided_at, decided_by = given.decided_by, note = given.note, rule = given.rule,
      raw_decision = given.raw_decision
    from ${recordset(statement, DECISIONS, decisions)}
    where stored.session_id = ${statement.value(key)} and stored.call_id = given.call_id and stored.status = 'requested'`
}

function revokeRule(
  statement: Statement,
  schema: PostgresSchema,
  key: string,
  { id, by, at }: ProjectedRows['revokedRules'][number],
): string {
  return `update ${schema.table('approval_rules')} set revoked_at = ${statement.value(at)}::timestamptz, revoked_by = ${statement.value(by)}
    where session_id = ${statement.value(key)} and id = ${statement.value(id)} and revoked_at is null`
}

/** Sets the outcome of recoveries from earlier segments. */
function endRecoveries(statement: Statement, schema: PostgresSchema, key: string, ended: NonNullable<ProjectedRows['outcome']>): string {
  const { before, outcome, outcome_code, ended_at } = ended
  return `update ${schema.table('recoveries')}
    set outcome = ${statement.value(outcome)}, outcome_code = ${statement.value(outcome_code)}, ended_at = ${statement.value(ended_at)}
    where session_id = ${statement.value(key)} and seq < ${statement.value(before)} and outcome is null
      and kind in (${WITH_OUTCOME.map((kind) => `'${kind}'`).join(', ')})`
}

/** Fills in the end of errors from earlier segments; known values stay. */
function endErrors(statement: Statement, schema: PostgresSchema, key: string, end: ErrorEnd): string {
  const columns = [
    ['ended_at', 'timestamptz', end.ended_at],
    ['ended_by', 'text', end.ended_by],
    ['outcome', 'text', end.outcome],
  ] as const
  const set = columns.map(([name, type, value]) => `${name} = coalesce(${name}, ${statement.value(value)}::${type})`)
  return `update ${schema.table('errors')} set ${set.join(', ')}
    where session_id = ${statement.value(key)} and context = 'run' and outcome is null`
}

/** The transaction's id is the column's default. */
function commit(statement: Statement, schema: PostgresSchema, key: string, first: number, last: number): string {
  const values = [statement.value(key), `${statement.value(first)}::bigint`, `${statement.value(last)}::bigint`]
  return `insert into ${schema.table('commits')} (session_id, first_seq, last_seq) values (${values.join(', ')})`
}

function updateSession(statement: Statement, schema: PostgresSchema, { key, projection, head, executionId }: Segment): string {
  const { session, openTurn } = projection
  const { status, run, currentRun, turns, error, paused, usage, usd, spent, model, provider, checkpoint, forkedFrom, root, updatedAt } =
    session
  const safe = sanitiser()
  const set: Record<string, unknown> = {
    status,
    epoch: safeKey(head.epoch),
    ...(executionId !== undefined && { execution_id: safeKey(executionId) }),
    flushed_seq: head.seq,
    digest: head.digest,
    run,
    current_run: currentRun,
    turns,
    open_seq: openTurn?.seq ?? null,
    error: error && safe.json(error as unknown as Json),
    error_raw: error && safe.raw(error as unknown as Json),
    incident: session.incident && safe.json({ ...session.incident, code: safeKey(session.incident.code) }),
    ...pausedColumns(paused),
    ...(session.planIsNew && planColumns(session.plan)),
    ...usageColumns(usage),
    usd,
    spent_tokens: spent.tokens,
    spent_usd: spent.usd,
    model: model === null ? null : safeKey(model),
    provider,
    checkpoint,
    waiting: waitingCalls(session),
    parent: forkedFrom && safeKey(forkedFrom.sessionId),
    forked_seq: forkedFrom?.seq ?? null,
    root: root && safeKey(root),
    updated_at: new Date(updatedAt).toISOString(),
    flushed_at: new Date().toISOString(),
  }
  const assignments = Object.entries(set).map(([name, value]) => `${name} = ${statement.value(value)}`)
  if (forkedFrom) assignments.push(`copied_from = ${statement.value(set.parent)}`)
  return `update ${schema.table('sessions')} set ${assignments.join(', ')} where session_id = ${statement.value(key)}`
}
