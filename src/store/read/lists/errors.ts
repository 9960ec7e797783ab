// Failed attempts and failed runs of all sessions, newest first.
import { numberIn, textIn } from '../../postgres/columns.ts'
import type { TextRow } from '../../postgres/database.ts'
import { ERROR_COLUMNS, errorOf } from '../reader.ts'
import { begins, equal, type StoredList, timestamp, within } from './page.ts'
import type { ErrorFilter } from '../../filters.ts'
import type { ListedError } from '../../listed.ts'

/** See `Lists.errors`. */
export const ERRORS: StoredList<ErrorFilter, ListedError> = {
  select: (schema) => `select session_id, agent, next_delay_ms, ${ERROR_COLUMNS} from ${schema.table('errors')} errors`,
  order: 'errors.at desc, errors.session_id desc, errors.seq desc',
  where(query, filter) {
    equal(query, { session_id: filter.session, context: filter.context })
    if (filter.run !== undefined) query.where.push(`run = ${query.value(filter.run)}::integer`)
    query.where.push(...begins(query.value, 'session_id', filter.idPrefix))
    within(query, 'at', filter)
  },
  key: ['number', 'text', 'number'],
  after: (query, [at, sessionId, seq]) =>
    `(at, session_id, seq) < (${timestamp(query, at)}, ${query.value(sessionId)}::text, ${query.value(seq)}::bigint)`,
  item: listedErrorOf,
  keyOf: (row) => [Number(row.at), textIn(row, 'session_id'), Number(row.seq)],
}

function listedErrorOf(row: TextRow): ListedError {
  return {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    ...errorOf(row),
    nextDelayMs: numberIn(row, 'next_delay_ms'),
  }
}
