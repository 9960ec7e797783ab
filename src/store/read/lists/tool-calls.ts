// Tool calls of all sessions by status, tool, time, key and effect, newest first.
import { hydrateCalls } from '../../blobs.ts'
import { dateOrNull, exactOr, jsonIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { CALL_COLUMNS, toolCallOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, equal, type StoredList, oneOf, queryOf, timestamp, whereAll, within } from './page.ts'
import type { Key, SessionToolCallFilter, ToolCallFilter } from '../../filters.ts'
import type { ListedToolCall } from '../../listed.ts'

const COLUMNS = `session_id, agent, progress, approval, result_blob, resolved_by, note, to_json(milestones) as milestones, raw_progress,
  ${ms('started_at')}, ${ms('waiting_until')}, ${CALL_COLUMNS}`

/** See `Lists.toolCalls`. */
export const TOOL_CALLS: StoredList<ToolCallFilter, ListedToolCall> = {
  select: (schema) => `select ${COLUMNS} from ${schema.table('tool_calls')} calls`,
  order: 'calls.issued_at desc, calls.session_id, calls.call_id',
  where(query, filter) {
    equal(query, { session_id: filter.session, tool: filter.tool, idempotency_key: filter.key, effect_id: filter.effectId })
    oneOf(query, 'status', filter.status)
    query.where.push(...begins(query.value, 'session_id', filter.idPrefix))
    within(query, 'issued_at', filter)
  },
  key: ['number', 'text', 'text'],
  after(query, [issuedAt, sessionId, callId]) {
    const at = timestamp(query, issuedAt)
    const rest = `(session_id, call_id) > (${query.value(sessionId)}::text, ${query.value(callId)}::text)`
    return `issued_at <= ${at} and (issued_at < ${at} or ${rest})`
  },
  item: listedToolCallOf,
  keyOf: keyOfCall,
}

/** The place of a call in lists by the time of its request. */
export function keyOfCall(row: TextRow): Key {
  return [Number(row.issued_at), textIn(row, 'session_id'), textIn(row, 'call_id')]
}

/** See `Lists.toolCallsOf`. */
export async function readCalls(
  database: Queryable,
  schema: PostgresSchema,
  sessionId: string,
  { status, tool, run }: SessionToolCallFilter,
): Promise<ListedToolCall[]> {
  const query = queryOf(`select ${COLUMNS} from ${schema.table('tool_calls')}`, 'run, turn, call_index')
  equal(query, { session_id: sessionId, tool })
  oneOf(query, 'status', status)
  if (run !== undefined) query.where.push(`run = ${query.value(run)}`)
  const rows = await database.query(`${query.select} ${whereAll(query.where)} order by ${query.order}`, query.values)
  const calls = rows.map(listedToolCallOf).map((row) => ({ row, sha256: row.resultBlob }))
  return hydrateCalls(database, schema, sessionId, calls)
}

/** Bytes of JSON of arguments and results that a report of a run shows as they are, and characters of the beginning of larger ones. */
const SHOWN = { bytes: 4_000, characters: 1_000 }

/** The columns, without what may be large and a report of a run does not show. */
const COLUMNS_OF_RUN = Object.entries({
  input: beginningOf('input'),
  model_input: 'null',
  result: beginningOf('result'),
  progress: 'null',
  raw_progress: 'null',
  raw_intent: ifShort('raw_intent'),
  raw_outcome: ifShort('raw_outcome'),
}).reduce((columns, [name, value]) => columns.replace(new RegExp(`\\b${name},`), `${value} as ${name},`), COLUMNS)

function beginningOf(column: string): string {
  const beginning = `to_jsonb(left(${column}::text, ${SHOWN.characters}) || '…')`
  return `case when octet_length(${column}::text) <= ${SHOWN.bytes} then ${column} else ${beginning} end`
}

function ifShort(column: string): string {
  return `case when octet_length(${column}) < 10000 then ${column} end`
}

/** The calls of one run, in the order of the model's requests, with the beginning of large arguments and results. */
export async function listRunCalls(database: Queryable, schema: PostgresSchema, sessionId: string, run: number): Promise<ListedToolCall[]> {
  const rows = await database.query(
    `select ${COLUMNS_OF_RUN} from ${schema.table('tool_calls')} where session_id = $1 and run = $2 order by turn, call_index`,
    [safeKey(sessionId), run],
  )
  return rows.map(listedToolCallOf)
}

function listedToolCallOf(row: TextRow): ListedToolCall {
  return {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    ...toolCallOf(row),
    startedAt: dateOrNull(row, 'started_at'),
    waitingUntil: dateOrNull(row, 'waiting_until'),
    resultBlob: row.result_blob ?? null,
    resolvedBy: row.resolved_by ?? null,
    progress: exactOr(row.raw_progress, () => jsonIn(row, 'progress')),
    approval: jsonIn(row, 'approval'),
    note: row.note ?? null,
    milestones: (jsonIn(row, 'milestones') as string[] | null) ?? [],
  }
}
