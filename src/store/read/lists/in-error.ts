// Sessions in `error` by code, agent, tags and the time of the error, newest session first.
import { jsonIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { type ListQuery, oneOf, pageOf, queryOf } from './page.ts'
import { continueAt, NEWEST_FIRST, placeOf } from './sessions.ts'
import type { InErrorFilter, Paging, Rows, SessionInError } from '../../rows.ts'

const COLUMNS = `session_id, agent, coalesce(error_raw, error::text) as error, ${ms('created_at')}`

/** See `Lists.inError`. */
export function listInError(
  database: Queryable,
  schema: PostgresSchema,
  filter: InErrorFilter,
  paging: Paging,
): Promise<Rows<SessionInError>> {
  const query = queryOf(`select ${COLUMNS} from ${schema.table('sessions')} sessions`, NEWEST_FIRST)
  query.where.push(`status = 'error'`)
  if (filter.session !== undefined) query.where.push(`session_id = ${query.value(safeKey(filter.session))}`)
  oneOf(
    query,
    'error_code',
    filter.codes?.map((code) => safeKey(code)),
  )
  if (filter.agent !== undefined) query.where.push(`agent = ${query.value(safeKey(filter.agent))}`)
  if (filter.tags) query.where.push(`tags @> ${query.value(filter.tags.map((tag) => safeKey(tag)))}::text[]`)
  enteredWithin(query, filter)
  continueAt(query, paging)
  return pageOf(database, query, paging.limit, inErrorOf, placeOf)
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
