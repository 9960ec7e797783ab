// The pending calls of all sessions, longest wait first.
import type { Json, JsonObject } from '../../../session/json.ts'
import { dateOrNull, exactOr, jsonIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { CALL_COLUMNS, toolCallOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, keyIn, pageOf, queryOf, timestamp } from './page.ts'
import type { ListedPending, Paging, PendingFilter, PendingKind, Rows } from '../../rows.ts'

const COLUMNS = `session_id, agent, to_json(tags) as tags, session_raw, approval, ${ms('waiting_until')}, input_digest, ${CALL_COLUMNS}`

/** Literals, so that the indexes on status can be used. An unknown call that was reported to the model does not wait. */
const WAITS: Record<PendingKind, string> = {
  approval: "status = 'awaiting_approval'",
  client: "status = 'awaiting_answer'",
  unknown: "(status = 'unknown' and error ->> 'asked' = 'true' and session_status <> 'closed')",
}
const KINDS = Object.keys(WAITS) as PendingKind[]

/** See `Lists.pending`. */
export function listPending(
  database: Queryable,
  schema: PostgresSchema,
  filter: PendingFilter,
  paging: Paging,
): Promise<Rows<ListedPending>> {
  const { kind = KINDS, agent, tags, session, idPrefix } = filter
  const query = queryOf(
    `select ${COLUMNS} from (
       select calls.*, sessions.tags, sessions.raw as session_raw, sessions.status as session_status
       from ${schema.table('tool_calls')} calls join ${schema.table('sessions')} sessions using (session_id)
     ) calls`,
    'calls.issued_at, calls.session_id, calls.call_id',
  )
  query.where.push(`(${kind.map((one) => WAITS[one]).join(' or ')})`)
  if (agent !== undefined) query.where.push(`agent = ${query.value(safeKey(agent))}`)
  if (session !== undefined) query.where.push(`session_id = ${query.value(safeKey(session))}`)
  query.where.push(...begins(query.value, 'session_id', idPrefix))
  if (tags) query.where.push(`tags @> ${query.value(tags.map((tag) => safeKey(tag)))}::text[]`)
  const key = keyIn(paging, ['number', 'text', 'text'])
  if (key) {
    query.where.push(
      `(issued_at, session_id, call_id) > (${timestamp(query, key[0])}, ${query.value(key[1])}::text, ${query.value(key[2])}::text)`,
    )
  }
  return pageOf(database, query, paging.limit, pendingOf, (row) => [
    Number(row.issued_at),
    textIn(row, 'session_id'),
    textIn(row, 'call_id'),
  ])
}

function pendingOf(row: TextRow): ListedPending {
  const call = toolCallOf(row)
  const kind = call.status === 'awaiting_approval' ? 'approval' : call.status === 'awaiting_answer' ? 'client' : 'unknown'
  const approval = kind === 'approval' ? (jsonIn(row, 'approval') as JsonObject | null) : null
  const { callId, run, turn, tool, effect, input, modelInput, key, attempt, issuedAt, completedAt } = call
  const digest = textOr(approval?.digest) ?? row.input_digest ?? null
  const pending = {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    tags: exactOr<{ tags: string[] }>(row.session_raw, () => ({ tags: jsonIn(row, 'tags') as string[] })).tags,
    callId,
    run,
    turn,
    tool,
    effect,
    input,
    modelInput,
    key,
    reason: textOr(approval?.reason) ?? (kind === 'unknown' ? (call.error?.message ?? null) : null),
    attempt,
    waitingSince: momentOf(approval?.requestedAt) ?? (kind === 'unknown' ? completedAt : null) ?? issuedAt,
    expiresAt: dateOrNull(row, 'waiting_until'),
  }
  if (kind !== 'approval') return { kind, ...pending, digest, onExpiry: null }
  // A request for approval always has a digest.
  return { kind, ...pending, digest: digest ?? '', onExpiry: (textOr(approval?.onExpiry) as 'deny' | 'error' | null) ?? 'deny' }
}

const textOr = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null)
const momentOf = (value: Json | undefined): Date | null => (typeof value === 'string' ? new Date(value) : null)
