// The pending calls of all sessions, longest wait first.
import type { Json, JsonObject } from '../../../session/json.ts'
import type { CallQuestion } from '../../../session/question-facts.ts'
import { dateOrNull, exactOr, jsonIn, ms, textIn } from '../../postgres/columns.ts'
import type { TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { CHILD_PART } from '../../../session/agents/agent-calls.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { CALL_COLUMNS, toolCallOf } from '../reader.ts'
import { begins, equal, inTree, type StoredList, tagged, timestamp } from './page.ts'
import { keyOfCall } from './tool-calls.ts'
import type { ListedPendingCall, PendingKind } from '../../listed.ts'
import type { PendingFilter } from '../../filters.ts'

const COLUMNS = `session_id, agent, to_json(tags) as tags, path, session_raw, approval, question, ${ms('waiting_until')}, input_digest, ${CALL_COLUMNS}`

/** Digest of what a rule for a context or a session must have in common with a call. */
const GROUP = `substr(encode(sha256(convert_to(jsonb_build_array(
    agent, tool, effect, approval -> 'approvers' ->> 'role',
    (select tag from unnest(tags) with ordinality as listed(tag, n) where starts_with(tag, 'tenant:') order by n limit 1),
    case when jsonb_typeof(session_context) = 'object' and session_context <> '{}' then session_context else to_jsonb(session_id) end
  )::text, 'UTF8')), 'hex'), 1, 16)`

/** Literals, so that the indexes on status can be used. An unknown call that was reported to the model does not wait. */
const WAITS: Record<PendingKind, string> = {
  approval: "status = 'awaiting_approval'",
  client: "(status = 'awaiting_answer' and question is null)",
  question: "(status = 'awaiting_answer' and question is not null)",
  unknown: "(status = 'unknown' and error ->> 'asked' = 'true' and session_status <> 'closed')",
}
const KINDS = Object.keys(WAITS) as PendingKind[]

/** The agents of the sessions above one, from the root: the ids of these sessions are the beginnings of its own. */
const callersIn = (schema: PostgresSchema): string => `select coalesce(json_agg(above.agent order by length(above.session_id)), '[]')
           from ${schema.table('sessions')} above where above.session_id in (
             select left(sessions.session_id, at) from generate_series(length(sessions.root), length(sessions.session_id) - 1, ${CHILD_PART}) at
           )`

/** See `Lists.pending`. */
export const PENDING: StoredList<PendingFilter, ListedPendingCall> = {
  select: (schema) => `select ${COLUMNS}, case when status = 'awaiting_approval' then ${GROUP} end as call_group from (
       select calls.*, sessions.tags, sessions.raw as session_raw, sessions.status as session_status, sessions.root,
         sessions.context as session_context,
         (${callersIn(schema)}) as path
       from ${schema.table('tool_calls')} calls join ${schema.table('sessions')} sessions using (session_id)
     ) calls`,
  order: 'calls.issued_at, calls.session_id, calls.call_id',
  where(query, { kind = KINDS, agent, tags, session, tree, idPrefix, role, group }) {
    query.where.push(`(${kind.map((one) => WAITS[one]).join(' or ')})`)
    equal(query, { agent, ...(!tree && { session_id: session }) })
    if (tree && session !== undefined) query.where.push(inTree(query.value, session))
    query.where.push(...begins(query.value, 'session_id', idPrefix))
    tagged(query, tags)
    if (group !== undefined) query.where.push(`(status = 'awaiting_approval' and ${GROUP} = ${query.value(safeKey(group))})`)
    if (role !== undefined)
      query.where.push(`(status = 'awaiting_approval' and approval -> 'approvers' ->> 'role' = ${query.value(safeKey(role))})`)
  },
  key: ['number', 'text', 'text'],
  after: (query, [issuedAt, sessionId, callId]) =>
    `(issued_at, session_id, call_id) > (${timestamp(query, issuedAt)}, ${query.value(sessionId)}::text, ${query.value(callId)}::text)`,
  item: pendingOf,
  keyOf: keyOfCall,
}

function pendingOf(row: TextRow): ListedPendingCall {
  const call = toolCallOf(row)
  const question = call.status === 'awaiting_answer' && row.question != null ? (jsonIn(row, 'question') as JsonObject) : null
  const kind = call.status === 'awaiting_approval' ? 'approval' : call.status === 'awaiting_answer' ? 'client' : 'unknown'
  const approval = kind === 'approval' ? (jsonIn(row, 'approval') as JsonObject | null) : null
  const { callId, run, turn, tool, effect, input, modelInput, key, attempt, issuedAt, completedAt } = call
  const digest = textOr(approval?.digest) ?? row.input_digest ?? null
  const pending = {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    path: jsonIn(row, 'path') as string[],
    tags: exactOr<{ tags: string[] }>(row.session_raw, () => ({ tags: jsonIn(row, 'tags') as string[] })).tags,
    callId,
    run,
    turn,
    tool,
    effect,
    input,
    modelInput,
    key,
    reason: textOr(approval?.reason) ?? textOr(question?.message) ?? (kind === 'unknown' ? (call.error?.message ?? null) : null),
    attempt,
    waitingSince: momentOf(approval?.requestedAt) ?? momentOf(question?.askedAt) ?? (kind === 'unknown' ? completedAt : null) ?? issuedAt,
    expiresAt: dateOrNull(row, 'waiting_until'),
  }
  if (question) {
    const { digest: asked, askedAt: _, ...rest } = question
    return { kind: 'question', ...pending, digest: textOr(asked) ?? '', question: rest as unknown as CallQuestion, onExpiry: null }
  }
  if (kind !== 'approval') return { kind, ...pending, digest, onExpiry: null }
  const role = textOr((approval?.approvers as JsonObject | null | undefined)?.role)
  // A request for approval always has a digest.
  return {
    kind,
    ...pending,
    digest: digest ?? '',
    approvers: role === null ? null : { role },
    group: textIn(row, 'call_group'),
    onExpiry: (textOr(approval?.onExpiry) as 'deny' | 'error' | null) ?? 'deny',
  }
}

const textOr = (value: Json | undefined): string | null => (typeof value === 'string' ? value : null)
const momentOf = (value: Json | undefined): Date | null => (typeof value === 'string' ? new Date(value) : null)
