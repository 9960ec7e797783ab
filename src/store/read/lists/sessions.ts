// Sessions by status, agent, tags and time, newest first.
import { dateIn, dateOrNull, ms, numberIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { PLAN_COLUMNS, planIn, SESSION_COLUMNS, sessionOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, keyIn, type ListQuery, oneOf, pageOf, queryOf, timestamp, within } from './page.ts'
import type { Key, ListedSession, Paging, Rows, SessionFilter } from '../../rows.ts'

const COLUMNS = `${SESSION_COLUMNS}, ${PLAN_COLUMNS}, parent, forked_seq, model, provider, usd, checkpoint, waiting,
  ${ms('flushed_at')}, ${ms('pruned_at')}, ${ms('erased_at')}`

/** The order, which stays the same whatever happens to a session. */
export const NEWEST_FIRST = 'sessions.created_at desc, sessions.session_id'

/** See `Lists.sessions`. */
export function listSessions(
  database: Queryable,
  schema: PostgresSchema,
  filter: SessionFilter,
  paging: Paging,
): Promise<Rows<ListedSession>> {
  const query = queryOf(`select ${COLUMNS} from ${schema.table('sessions')} sessions`, NEWEST_FIRST)
  oneOf(query, 'status', filter.status)
  if (filter.paused !== undefined) query.where.push(`paused is ${filter.paused ? 'not null' : 'null'}`)
  if (filter.agent !== undefined) query.where.push(`agent = ${query.value(safeKey(filter.agent))}`)
  if (filter.tags) query.where.push(`tags @> ${query.value(filter.tags.map((tag) => safeKey(tag)))}::text[]`)
  query.where.push(...begins(query.value, 'session_id', filter.idPrefix))
  within(query, 'created_at', filter)
  continueAt(query, paging)
  return pageOf(database, query, paging.limit, listedSessionOf, placeOf)
}

/** Adds the condition for the page that begins there. */
export function continueAt(query: ListQuery, paging: Paging): void {
  const key = keyIn(paging, ['number', 'text'])
  if (!key) return
  const at = timestamp(query, key[0])
  // Only the first half can use an index.
  query.where.push(`created_at <= ${at} and (created_at < ${at} or session_id > ${query.value(key[1])})`)
}

/** A row's place in the order. */
export function placeOf(row: TextRow): Key {
  return [Number(row.created_at), row.session_id ?? '']
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
