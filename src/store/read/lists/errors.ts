// Failed attempts and failed runs of all sessions, newest first.
import { numberIn, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { ERROR_COLUMNS, errorOf } from '../reader.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, keyIn, pageOf, queryOf, timestamp, within } from './page.ts'
import type { ErrorFilter, ListedError, Paging, Rows } from '../../rows.ts'

/** See `Lists.errors`. */
export function listErrors(database: Queryable, schema: PostgresSchema, filter: ErrorFilter, paging: Paging): Promise<Rows<ListedError>> {
  const query = queryOf(
    `select session_id, agent, next_delay_ms, ${ERROR_COLUMNS} from ${schema.table('errors')} errors`,
    'errors.at desc, errors.session_id desc, errors.seq desc',
  )
  if (filter.session !== undefined) query.where.push(`session_id = ${query.value(safeKey(filter.session))}`)
  if (filter.run !== undefined) query.where.push(`run = ${query.value(filter.run)}::integer`)
  if (filter.context !== undefined) query.where.push(`context = ${query.value(safeKey(filter.context))}`)
  query.where.push(...begins(query.value, 'session_id', filter.idPrefix))
  within(query, 'at', filter)
  const key = keyIn(paging, ['number', 'text', 'number'])
  if (key) {
    query.where.push(`(at, session_id, seq) < (${timestamp(query, key[0])}, ${query.value(key[1])}::text, ${query.value(key[2])}::bigint)`)
  }
  return pageOf(database, query, paging.limit, listedErrorOf, (row) => [Number(row.at), textIn(row, 'session_id'), Number(row.seq)])
}

function listedErrorOf(row: TextRow): ListedError {
  return {
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    ...errorOf(row),
    nextDelayMs: numberIn(row, 'next_delay_ms'),
  }
}
