// Sums of tokens and US dollars: days newest first, turns in order, others highest cost first. Inherited turns of forks have no rows, so
// nothing is counted twice.
import { textIn, usageIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import { begins, keyIn, ofTree, type ListQuery, pageOf, queryOf, timestamp, whereAll } from './page.ts'
import type { Key, Paging, Rows, TimeSpan, UsageFilter } from '../../filters.ts'
import type { UsageBy, UsageSum } from '../../sums.ts'

const GROUPS: Record<UsageBy, string> = { agent: 'agent', model: 'model', session: 'session_id', day: 'day', turn: 'array[run, turn]' }
const TOKENS = ['input_tokens', 'output_tokens', 'cache_creation_input_tokens', 'cache_read_input_tokens', 'web_search_requests']
const DAY_MS = 86_400_000

/** The default text of a date would depend on the connection's settings. */
const DAY_TEXT = `to_char(group_key, 'YYYY-MM-DD')`
const TURN_TEXT = `array_to_string(group_key, '.')`

/**
 * Sums in `double precision`, because Postgres sums bigint and numeric in numeric, which takes twice as long. Whole numbers up to 2^53 are
 * exact; dollars are rounded to billionths, which hold every list price, so that a sum does not depend on the order.
 */
const TOKEN_SUMS = TOKENS.map((name) => `sum(${name}::double precision) as ${name}`).join(', ')
const USD_SUM = `coalesce(round(sum(usd::double precision) * 1e9) / 1e9, 0)`

/** See `Lists.usage`. */
export function sumUsage(database: Queryable, schema: PostgresSchema, filter: UsageFilter, paging: Paging): Promise<Rows<UsageSum>> {
  if (filter.by === 'turn') return sumTurns(database, schema, filter, paging)
  const rows = queryOf('', '')
  const byDay = filter.by === 'day'
  const query = {
    ...rows,
    select: `select *, ${byDay ? DAY_TEXT : 'group_key'} as key from (${sumsOf(rows, schema, filter)}) sums`,
    order: byDay ? 'group_key desc' : 'usd desc, group_key',
  }
  const key = keyIn(paging, byDay ? ['text'] : ['text', 'text'])
  if (key) query.where.push(byDay ? `group_key < to_date(${query.value(key[0])}, 'YYYY-MM-DD')` : afterHighest(query.value, key))
  return pageOf(database, query, paging.limit, sumOf, (row) => (byDay ? [textIn(row, 'key')] : [textIn(row, 'usd'), textIn(row, 'key')]))
}

function sumTurns(database: Queryable, schema: PostgresSchema, filter: UsageFilter, paging: Paging): Promise<Rows<UsageSum>> {
  const rows = queryOf('', '')
  const span = [
    ...(filter.since ? [`at >= ${timestamp(rows, filter.since)}`] : []),
    ...(filter.until ? [`at < ${timestamp(rows, filter.until)}`] : []),
  ]
  const sums = `select ${GROUPS.turn} as group_key, count(*) as calls, ${USD_SUM} as usd, count(*) - count(usd) as unpriced, ${TOKEN_SUMS}
    from ${schema.table('token_usage')} ${whereAll([...ofSessions(rows, schema, filter), ...span])} group by 1`
  const query = { ...rows, select: `select *, ${TURN_TEXT} as key from (${sums}) sums`, order: 'group_key' }
  const key = keyIn(paging, ['text'])
  if (key) query.where.push(`group_key > string_to_array(${query.value(key[0])}, '.')::integer[]`)
  return pageOf(database, query, paging.limit, sumOf, (row) => [textIn(row, 'key')])
}

function sumsOf(query: ListQuery, schema: PostgresSchema, filter: UsageFilter): string {
  const { by, since, until } = filter
  if (by === 'session' && !since && !until) {
    // There is one group per session, and these sums exist already.
    return `select session_id as group_key, calls, usd, calls - priced as unpriced, ${TOKENS.join(', ')}
    from ${schema.table('usage_by_session')} ${whereAll(ofSessions(query, schema, filter))}`
  }
  return `select ${GROUPS[by]} as group_key, sum(calls) as calls, ${USD_SUM} as usd,
      sum(calls) - sum(priced) as unpriced, ${TOKEN_SUMS}
    from (${counted(query, schema, filter)}) counted group by 1`
}

const ofSessions = (query: ListQuery, schema: PostgresSchema, { session, tree, idPrefix }: UsageFilter): string[] => [
  ...(session === undefined ? [] : [tree ? ofTree(query.value, schema, session) : `session_id = ${query.value(safeKey(session))}`]),
  ...begins(query.value, 'session_id', idPrefix),
]

/** The rows to sum: existing sums for whole days, and single calls for the days that the span cuts. */
function counted(query: ListQuery, schema: PostgresSchema, filter: UsageFilter): string {
  const always = ofSessions(query, schema, filter)
  const { calls, days } = conditionsOf(query, filter)
  const parts = calls.map(
    (conditions) => `select session_id, agent, model, (at at time zone 'UTC')::date as day, 1 as calls,
      (usd is not null)::integer as priced, usd, ${TOKENS.join(', ')}
    from ${schema.table('token_usage')} ${whereAll([...always, ...conditions])}`,
  )
  if (days) {
    parts.push(`select session_id, agent, model, day, calls, priced, usd, ${TOKENS.join(', ')}
    from ${schema.table('usage_by_day')} ${whereAll([...always, ...days])}`)
  }
  return parts.join(' union all ')
}

/** The span as conditions on whole days, if there may be any, and on the calls before and after those. */
function conditionsOf(query: ListQuery, { since, until }: TimeSpan): { calls: string[][]; days?: string[] } {
  const begin = since?.getTime() ?? Number.NEGATIVE_INFINITY
  const end = until?.getTime() ?? Number.POSITIVE_INFINITY
  const [first, last] = [Math.ceil(begin / DAY_MS), Math.floor(end / DAY_MS)]
  // Created only when used, because Postgres refuses unused parameters.
  const fromBegin = () => (since ? [`at >= ${timestamp(query, begin)}`] : [])
  const toEnd = () => (until ? [`at < ${timestamp(query, end)}`] : [])
  if (first >= last) return { calls: [[...fromBegin(), ...toEnd()]] }
  // A day's number as a Postgres date, which supports the day after 9999-12-31.
  const day = (number: number) => `(date '1970-01-01' + ${query.value(number)}::integer)`
  const midnight = (number: number) => `${day(number)}::timestamp at time zone 'UTC'`
  return {
    calls: [
      ...(begin < first * DAY_MS ? [[...fromBegin(), `at < ${midnight(first)}`]] : []),
      ...(last * DAY_MS < end ? [[`at >= ${midnight(last)}`, ...toEnd()]] : []),
    ],
    days: [...(since ? [`day >= ${day(first)}`] : []), ...(until ? [`day < ${day(last)}`] : [])],
  }
}

/** Keeps dollars as text, because a rounded number could fall between two rows. */
function afterHighest(value: (value: unknown) => string, [usd, key]: Key): string {
  const than = `${value(usd)}::numeric`
  return `usd <= ${than} and (usd < ${than} or group_key > ${value(key)})`
}

function sumOf(row: TextRow): UsageSum {
  return { key: textIn(row, 'key'), calls: Number(row.calls), usage: usageIn(row), usd: Number(row.usd), unpriced: Number(row.unpriced) }
}
