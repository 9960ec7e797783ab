// Sessions in `error` by code, agent, tags and the time of the error, newest session first.
import { jsonIn, ms, textIn } from '../../postgres/columns.ts'
import type { TextRow } from '../../postgres/database.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { equal, type StoredList, type ListQuery, oneOf, tagged } from './page.ts'
import { BY_CREATION } from './sessions.ts'
import type { InErrorFilter } from '../../filters.ts'
import type { SessionInError } from '../../listed.ts'

const COLUMNS = `session_id, agent, coalesce(error_raw, error::text) as error, ${ms('created_at')}`

/** See `Lists.inError`. */
export const IN_ERROR: StoredList<InErrorFilter, SessionInError> = {
  ...BY_CREATION,
  select: (schema) => `select ${COLUMNS} from ${schema.table('sessions')} sessions`,
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
