// Sessions by status, agent, tags and time, newest first: all of them, or those in error.
import { dateIn, dateOrNull, ms, numberIn, jsonIn, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { PLAN_COLUMNS, planIn, SESSION_COLUMNS, sessionOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, equal, inTree, type StoredList, oneOf, tagged, timestamp, within, type ListQuery } from './page.ts'
import type { ListedSession, SessionInError } from '../../listed.ts'
import type { SessionFilter, InErrorFilter } from '../../filters.ts'

const COLUMNS = `${SESSION_COLUMNS}, ${PLAN_COLUMNS}, parent, forked_seq, root, model, provider, usd, checkpoint, waiting,
  ${ms('flushed_at')}, ${ms('pruned_at')}, ${ms('erased_at')}`

/** Orders sessions by creation, newest first. This order stays the same whatever happens to a session. */
const BY_CREATION: Pick<StoredList<unknown, unknown>, 'order' | 'key' | 'after' | 'keyOf'> = {
  order: 'sessions.created_at desc, sessions.session_id',
  key: ['number', 'text'],
  after(query, [createdAt, sessionId]) {
    const at = timestamp(query, createdAt)
    // Only the first half can use an index.
    return `created_at <= ${at} and (created_at < ${at} or session_id > ${query.value(sessionId)})`
  },
  keyOf: (row) => [Number(row.created_at), row.session_id ?? ''],
}

/** See `Lists.sessions`. */
export const SESSIONS: StoredList<SessionFilter, ListedSession> = {
  ...BY_CREATION,
  select: (schema) => `select ${COLUMNS} from ${schema.table('sessions')} sessions`,
  where(query, filter) {
    oneOf(query, 'status', filter.status)
    if (filter.paused !== undefined) query.where.push(`paused is ${filter.paused ? 'not null' : 'null'}`)
    equal(query, { agent: filter.agent })
    tagged(query, filter.tags)
    query.where.push(...begins(query.value, 'session_id', filter.idPrefix))
    if (filter.tree !== undefined) query.where.push(inTree(query.value, filter.tree))
    else if (!filter.children) query.where.push('root is null')
    within(query, 'created_at', filter)
  },
  item: listedSessionOf,
}

/** See `Lists.session`. */
export async function findSession(database: Queryable, schema: PostgresSchema, sessionId: string): Promise<ListedSession | null> {
  const [row] = await database.query(`select ${COLUMNS} from ${schema.table('sessions')} where session_id = $1`, [safeKey(sessionId)])
  return row ? listedSessionOf(row) : null
}

function listedSessionOf(row: TextRow): ListedSession {
  return {
    ...sessionOf(row),
    plan: planIn(row),
    parent: row.parent ?? null,
    forkedSeq: numberIn(row, 'forked_seq'),
    root: row.root ?? null,
    model: row.model ?? null,
    provider: row.provider ?? null,
    usd: numberIn(row, 'usd'),
    checkpoint: Number(row.checkpoint ?? 0),
    waiting: Number(row.waiting ?? 0),
    flushedAt: dateIn(row, 'flushed_at'),
    prunedAt: dateOrNull(row, 'pruned_at'),
    erasedAt: dateOrNull(row, 'erased_at'),
  }
}

const COLUMNS_IN_ERROR = `session_id, agent, coalesce(error_raw, error::text) as error, ${ms('created_at')}`

/** See `Lists.inError`. */
export const IN_ERROR: StoredList<InErrorFilter, SessionInError> = {
  ...BY_CREATION,
  select: (schema) => `select ${COLUMNS_IN_ERROR} from ${schema.table('sessions')} sessions`,
  where(query, filter) {
    query.where.push(`status = 'error'`)
    equal(query, { session_id: filter.session, agent: filter.agent })
    oneOf(
      query,
      'error_code',
      filter.codes?.map((code) => safeKey(code)),
    )
    tagged(query, filter.tags)
    enteredWithin(query, filter)
  },
  item: inErrorOf,
}

/** The time of the error is not a column. */
function enteredWithin(query: ListQuery, { since, until }: InErrorFilter): void {
  const at = `(error ->> 'at')::double precision`
  if (since) query.where.push(`${at} >= ${query.value(since.getTime())}::double precision`)
  if (until) query.where.push(`${at} < ${query.value(until.getTime())}::double precision`)
}

function inErrorOf(row: TextRow): SessionInError {
  return {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    error: jsonIn(row, 'error') as unknown as SessionInError['error'],
  }
}
