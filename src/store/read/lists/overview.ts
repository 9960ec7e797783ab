// The open sessions by what they need: first those that need a person, then those that are stuck, then the others.
import type { SessionStatus } from '../../../session/events.ts'
import { dateIn, dateOrNull, jsonIn, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { newStatement } from '../../postgres/insert-rows.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import { PLAN_COLUMNS, planIn, SESSION_COLUMNS, sessionOf } from '../reader.ts'
import { begins } from './page.ts'
import type { OverviewFilter, StartedSession, UnfinishedFilter } from '../../filters.ts'
import type { OverviewSession, SessionNeed, StatusOverview } from '../../sums.ts'

/** A running session stores its events every turn, and also during a call that takes longer than 200 ms. */
const QUIET = "interval '5 minutes'"
/** A worker that has the tool of a call begins it within milliseconds. */
const BEGUN_WITHIN = "interval '10 seconds'"
const JUST_STORED = "interval '3 seconds'"
/** The needs, in the order of the overview. */
const NEEDS = [
  'recovery',
  'resolution',
  'approval',
  'unpausing',
  'resuming',
  'worker',
  'automatic',
  'look',
  'answer',
  'plan',
  'nothing',
] as const satisfies SessionNeed[]
const OPEN = ['error', 'waiting', 'running', 'idle'] as const satisfies SessionStatus[]

/**
 * The calls of a session that wait, by kind; an unknown call that was reported to the model does not. Tools and times are those of the most
 * urgent kind, which is the one that the session's need names.
 */
const WAITING_CALLS = (calls: string): string => `select
    count(*) filter (where status = 'awaiting_approval') as approvals,
    count(*) filter (where status = 'awaiting_answer') as answers,
    count(*) filter (where status = 'unknown') as unknown,
    to_json(array_agg(distinct tool) filter (where status = first)) as tools,
    min(waiting_until) filter (where status = first) as expires,
    min(coalesce((approval ->> 'requestedAt')::timestamptz, issued_at)) filter (where status = first) as since
  from (
    select *, first_value(status) over (order by array_position('{unknown,awaiting_approval,awaiting_answer}'::text[], status)) as first
    from ${calls} calls where calls.session_id = sessions.session_id
      and (status in ('awaiting_approval', 'awaiting_answer') or (status = 'unknown' and error ->> 'asked' = 'true'))
  ) calls`

/**
 * An automatic recovery is in progress, and nothing shows yet that the cause is gone: while a provider is unavailable, a session alternates
 * between its error and the next attempt.
 */
const TRIES_AGAIN = (table: (name: string) => string): string => `exists (
    select from ${table('recoveries')} tried where tried.session_id = sessions.session_id and tried.run = sessions.current_run
      and tried.kind = 'recovery_started' and tried.outcome is null and tried.details ->> 'automatic' = 'true'
      and not exists (select from ${table('token_usage')} answered where answered.session_id = tried.session_id and answered.seq > tried.seq)
      and not exists (select from ${table('tool_calls')} done where done.session_id = tried.session_id and done.outcome_seq > tried.seq))`

/** Calls that no worker has begun, although the session has stored nothing since: they are due, and not between two attempts. */
const NOT_BEGUN = (table: (name: string) => string): string => `select
    to_json(array_agg(distinct tool)) as due_tools
  from ${table('tool_calls')} calls where calls.session_id = sessions.session_id and status = 'issued'
    and not exists (select from ${table('errors')} failed where failed.session_id = calls.session_id and failed.call_id = calls.call_id
      and failed.at + coalesce(failed.next_delay_ms, 0) * interval '1 ms' > now() - ${BEGUN_WITHIN})`

/** An attempt has failed, and the next one is due at a time that its provider or tool may have chosen. */
const RETRIES_LATER = (table: (name: string) => string): string => `exists (
    select from ${table('errors')} failed where failed.session_id = sessions.session_id
      and failed.at + failed.next_delay_ms * interval '1 ms' > now())`

/** The conditions that a session cannot take its next step, that it is due later, and that its workflow has ended. */
interface OnTemporal {
  isHeldUp: string
  isLater: string
  hasEnded: string
}

const needOf = (table: (name: string) => string, { isHeldUp, isLater, hasEnded }: OnTemporal): string => `case
    when status = 'error' and error_strategy is distinct from 'automatic' and next_attempt_at is null then 'recovery'
    when unknown > 0 then 'resolution'
    when approvals > 0 then 'approval'
    when paused is not null then 'unpausing'
    when ${hasEnded} then 'resuming'
    when ${isHeldUp} then 'worker'
    when status = 'error' then 'automatic'
    when status = 'running' and (${isLater} or ${TRIES_AGAIN(table)}) then 'automatic'
    when due_tools is not null then 'look'
    when status = 'running' and flushed_at < now() - ${QUIET} then case when ${RETRIES_LATER(table)} then 'automatic' else 'look' end
    when answers > 0 then 'answer'
    when status = 'idle' then 'plan'
    else 'nothing' end`

/** See `Lists.overview`. */
export async function readOverview(database: Queryable, schema: PostgresSchema, filter: OverviewFilter): Promise<StatusOverview> {
  const { value, values } = newStatement()
  const matching = matchingOf(filter, value)
  const table = (name: string): string => schema.table(name)
  const counts = await database.query(
    `select status, count(*) as sessions from ${schema.table('sessions')} where status = any('{${OPEN.join(',')}}')${matching} group by 1`,
    [...values],
  )
  const { running = [], any = [] } = filter.heldUp ?? {}
  const isListed = `session_id = any(${value(any.map(safeKey))}::text[])`
  const isHeldUp = `(${isListed} or status = 'running' and ${running === 'all' ? 'true' : `session_id = any(${value(running.map(safeKey))}::text[])`})`
  const isLater = `session_id = any(${value((filter.later ?? []).map(safeKey))}::text[])`
  const hasEnded = `(status <> 'idle' and session_id = any(${value((filter.ended ?? []).map(safeKey))}::text[]))`
  const rows = await database.query(
    `with unresolved as (
       select distinct session_id from ${schema.table('tool_calls')} where status = 'unknown' and error ->> 'asked' = 'true'
     ), open as (
       select ${SESSION_COLUMNS}, ${PLAN_COLUMNS}, ${needOf(table, { isHeldUp, isLater, hasEnded })} as need, coalesce(tools, due_tools) as tools, expires,
         coalesce(calls.since, to_timestamp((coalesce(error, paused) ->> 'at')::double precision / 1000), updated_at) as since
       from ${schema.table('sessions')} sessions left join lateral (${WAITING_CALLS(schema.table('tool_calls'))}) calls
         on sessions.waiting > 0 or session_id in (select session_id from unresolved)
       left join lateral (${NOT_BEGUN(table)}) due
         on status = 'running' and paused is null and flushed_at < now() - ${BEGUN_WITHIN}
       where (status in ('error', 'waiting', 'running') or paused is not null
           or (status = 'idle' and (${isListed} or plan_done < plan_steps or session_id in (select session_id from unresolved))))${matching}
     ), counted as (select need, count(*) as sessions from open group by 1)
     select open.*, (extract(epoch from open.since) * 1000)::bigint as since_ms, (extract(epoch from open.expires) * 1000)::bigint as expires_ms, (select json_object_agg(counted.need, counted.sessions) from counted) as needs
     from open order by array_position('{${NEEDS.join(',')}}'::text[], need), case when need = 'approval' then open.expires end nulls last, open.since, session_id limit ${value(filter.limit)}`,
    values,
  )
  const needs = (rows[0] ? jsonIn(rows[0], 'needs') : {}) as Record<string, number>
  const sessions = Object.fromEntries(counts.map((row) => [textIn(row, 'status'), Number(row.sessions)]))
  return { sessions: tally(OPEN, sessions), needs: tally(NEEDS, needs), items: rows.map(itemOf) }
}

/**
 * Sessions that continue without a request, so their workflow should be open; those that have stored nothing for the longest time come
 * first, and those that wait for people last. A session that has just stored something is omitted, because it may be closing.
 */
export async function readUnfinished(
  database: Queryable,
  schema: PostgresSchema,
  filter: UnfinishedFilter,
): Promise<{ sessionIds: string[]; count: number }> {
  const { value, values } = newStatement()
  const rows = await database.query(
    `select session_id, count(*) over () as sessions from ${schema.table('sessions')} sessions
     where (status in ('running', 'waiting') or (status = 'error' and (error_strategy = 'automatic' or next_attempt_at is not null)))
       and flushed_at < now() - ${JUST_STORED} and session_id <> all(${value((filter.besides ?? []).map(safeKey))}::text[])${matchingOf(filter, value)}
     order by status = 'waiting', flushed_at, session_id limit ${value(filter.limit)}`,
    values,
  )
  return { sessionIds: rows.map((row) => textIn(row, 'session_id')), count: Number(rows[0]?.sessions ?? 0) }
}

function matchingOf({ agent, idPrefix }: Pick<OverviewFilter, 'agent' | 'idPrefix'>, value: (of: unknown) => string): string {
  const conditions = [...(agent === undefined ? [] : [`agent = ${value(safeKey(agent))}`]), ...begins(value, 'session_id', idPrefix)]
  return conditions.map((condition) => ` and ${condition}`).join('')
}

/** The executions whose session has a row, unless the row only says that the session was closed or erased before. */
export async function storedAmong(database: Queryable, schema: PostgresSchema, executions: readonly StartedSession[]): Promise<string[]> {
  const { value, values } = newStatement()
  const [ids, times] = [executions.map(({ sessionId }) => safeKey(sessionId)), executions.map(({ startedAt }) => startedAt.toISOString())]
  const rows = await database.query(
    `select sessions.session_id from ${schema.table('sessions')} sessions
     join unnest(${value(ids)}::text[], ${value(times)}::timestamptz[]) as execution (session_id, started_at) using (session_id)
     where sessions.status <> 'closed' or started_at <= greatest(flushed_at, erased_at)`,
    values,
  )
  const stored = new Set(rows.map((row) => textIn(row, 'session_id')))
  return executions.flatMap(({ sessionId }) => (stored.has(safeKey(sessionId)) ? [sessionId] : []))
}

function tally<K extends string>(names: readonly K[], counts: Readonly<Record<string, number>>): Record<K, number> {
  return Object.fromEntries(names.map((name) => [name, counts[name] ?? 0])) as Record<K, number>
}

function itemOf(row: TextRow): OverviewSession {
  const { sessionId, agent, status, run, error, paused } = sessionOf(row)
  return {
    sessionId,
    agent,
    status,
    run,
    needs: textIn(row, 'need') as SessionNeed,
    since: dateIn(row, 'since_ms'),
    error,
    paused,
    tools: (jsonIn(row, 'tools') as string[] | null) ?? [],
    expiresAt: dateOrNull(row, 'expires_ms'),
    plan: planIn(row),
  }
}
