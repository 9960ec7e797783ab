// Tokens and US dollars, added up: days the newest first, all else the dearest first. A fork's inherited turns have no rows: nothing counts twice.
import { textIn } from '../columns.ts'
import type { Queryable, TextRow } from '../database.ts'
import { usageOf } from '../reader.ts'
import type { Schema } from '../schema.ts'
import { safeKey } from '../text.ts'
import { keyIn, pageOf, queryOf, within } from './page.ts'
import type { Key, Paging, Rows, UsageBy, UsageFilter, UsageSum } from './rows.ts'

const GROUPS: Record<UsageBy, string> = {
  agent: 'agent',
  model: 'model',
  session: 'session_id',
  day: `(at at time zone 'UTC')::date`,
}

/** A date's own text would depend on the connection's settings. */
const DAY_TEXT = `to_char(group_key, 'YYYY-MM-DD')`

/** See `Lists.usage`. */
export function sumUsage(database: Queryable, schema: Schema, filter: UsageFilter, paging: Paging): Promise<Rows<UsageSum>> {
  const group = GROUPS[filter.by]
  const rows = queryOf('', '')
  if (filter.session !== undefined) rows.where.push(`session_id = ${rows.value(safeKey(filter.session))}`)
  within(rows, 'at', filter)
  const sums = `select ${group} as group_key, count(*) as calls, coalesce(sum(usd), 0) as usd, count(*) - count(usd) as unpriced,
      sum(input_tokens) as input_tokens, sum(output_tokens) as output_tokens,
      sum(cache_creation_input_tokens) as cache_creation_input_tokens, sum(cache_read_input_tokens) as cache_read_input_tokens
    from ${schema.table('token_usage')} ${rows.where.length > 0 ? `where ${rows.where.join(' and ')}` : ''} group by 1`
  const byDay = filter.by === 'day'
  const query = {
    ...rows,
    where: [] as string[],
    select: `select *, ${byDay ? DAY_TEXT : 'group_key'} as key from (${sums}) sums`,
    order: byDay ? 'group_key desc' : 'usd desc, group_key',
  }
  const key = keyIn(paging, byDay ? ['text'] : ['text', 'text'])
  if (key) query.where.push(byDay ? `group_key < to_date(${query.value(key[0])}, 'YYYY-MM-DD')` : afterDearest(query.value, key))
  return pageOf(database, query, paging.limit, sumOf, (row) => (byDay ? [textIn(row, 'key')] : [textIn(row, 'usd'), textIn(row, 'key')]))
}

/** Dollars stay text: as a number they could fall between two rows. */
function afterDearest(value: (value: unknown) => string, [usd, key]: Key): string {
  const than = `${value(usd)}::numeric`
  return `(usd < ${than} or (usd = ${than} and group_key > ${value(key)}))`
}

function sumOf(row: TextRow): UsageSum {
  return { key: textIn(row, 'key'), calls: Number(row.calls), usage: usageOf(row), usd: Number(row.usd), unpriced: Number(row.unpriced) }
}
