// Statistics of failures in a time span: runs that failed, failures that repeat, what recoveries led to, and time spent in errors.
import { dateIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable } from '../../postgres/database.ts'
import { newStatement } from '../../postgres/insert-rows.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import type { AgentFailures, FailureFilter, FailureReport, RecoveryOutcomes, RepeatedFailure, TimeInError } from '../../rows.ts'

/** Maximum rows of each part: a person would not read more. */
const ROWS = 100

/** Types of events by which a session leaves an error or enters another. A new chain also ends an error that ends by itself. */
const ERROR_EXITS = `('recovery_ended', 'run_started', 'run_completed', 'run_interrupted', 'rolled_back', 'error_entered', 'session_started', 'forked',
  'session_closed')`
/**
 * See `Lists.failures`; `database` must be a snapshot, or the parts would contradict each other. docs/sql.md has the same statements
 * for operators.
 */
export async function readFailures(database: Queryable, schema: PostgresSchema, filter: FailureFilter): Promise<FailureReport> {
  const parts = { database, schema, filter }
  const agents = await failuresByAgent(parts)
  const repeated = await repeatedFailures(parts)
  const recoveries = await recoveryOutcomes(parts)
  const timeInError = await timeInErrors(parts)
  return { since: filter.since, agents, repeated, recoveries, timeInError }
}

interface Parts {
  database: Queryable
  schema: PostgresSchema
  filter: FailureFilter
}

/** A statement, and the condition that a row (by its alias) matches the filter's time span, agent and sessions. */
function statement({ since, until, agent, idPrefix }: FailureFilter) {
  const { value, values } = newStatement()
  const [from, to, name] = [
    value(since.toISOString()),
    until && value(until.toISOString()),
    agent === undefined ? undefined : value(safeKey(agent)),
  ]
  const begin = idPrefix === undefined ? undefined : value(safeKey(idPrefix))
  const matches = (row: string): string =>
    [
      `${row}.at >= ${from}::timestamptz`,
      ...(to ? [`${row}.at < ${to}::timestamptz`] : []),
      ...(name ? [`${row}.agent = ${name}`] : []),
      ...(begin ? [`starts_with(${row}.session_id, ${begin}::text)`] : []),
    ].join(' and ')
  return { matches, values }
}

async function failuresByAgent({ database, schema, filter }: Parts): Promise<AgentFailures[]> {
  const { matches, values } = statement(filter)
  const [errors, usage] = [schema.table('errors'), schema.table('token_usage')]
  const rows = await database.query(
    `with failed as (
       select e.session_id, e.run, e.agent, bool_or(not e.retryable) as failed from ${errors} e
       where e.context = 'run' and e.run is not null and ${matches('e')} group by 1, 2, 3
     ), attempts as (
       select e.agent, count(*) as attempts from ${errors} e where e.attempt is not null and ${matches('e')} group by 1
     ), runs as (
       select u.session_id, u.run, u.agent from ${usage} u where ${matches('u')} union select session_id, run, agent from failed
     )
     select agent, count(runs.run) as runs, count(*) filter (where failed.failed) as failed, count(*) filter (where not failed.failed) as held_up,
       coalesce(max(attempts), 0) as attempts
     from runs left join failed using (session_id, run, agent) full join attempts using (agent)
     group by agent order by failed desc, attempts desc, agent limit ${ROWS}`,
    values,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    runs: Number(row.runs),
    failed: Number(row.failed),
    heldUp: Number(row.held_up),
    failedAttempts: Number(row.attempts),
  }))
}

async function repeatedFailures({ database, schema, filter }: Parts): Promise<RepeatedFailure[]> {
  const { matches, values } = statement(filter)
  const rows = await database.query(
    `select *, ${ms('first')}, ${ms('newest')} from (
       select e.session_id, e.agent, coalesce(e.code, e.class) as code, count(*) as times, count(distinct e.run) as runs,
         min(e.at) as first, max(e.at) as newest
       from ${schema.table('errors')} e where e.context = 'run' and ${matches('e')}
       group by 1, 2, 3 having count(*) > 1 order by times desc, newest desc limit ${ROWS}
     ) repeated`,
    values,
  )
  return rows.map((row) => ({
    sessionId: textIn(row, 'session_id'),
    agent: textIn(row, 'agent'),
    code: textIn(row, 'code'),
    times: Number(row.times),
    runs: Number(row.runs),
    first: dateIn(row, 'first'),
    newest: dateIn(row, 'newest'),
  }))
}

async function recoveryOutcomes({ database, schema, filter }: Parts): Promise<RecoveryOutcomes[]> {
  const { matches, values } = statement(filter)
  const rows = await database.query(
    `select agent, strategy, coalesce(details ->> 'automatic' = 'true', false)::text as automatic,
       count(*) filter (where kind = 'recovery_started') as recoveries,
       count(*) filter (where outcome = 'completed') as completed,
       count(*) filter (where outcome = 'failed') as failed,
       count(*) filter (where kind = 'recovery_started' and outcome is null) as unfinished,
       count(*) filter (where kind = 'recovery_refused') as refused
     from ${schema.table('recoveries')} r
     where r.kind in ('recovery_started', 'recovery_refused') and ${matches('r')}
     group by 1, 2, 3 order by 4 desc, 1, 2, 3 limit ${ROWS}`,
    values,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    strategy: (row.strategy ?? null) as RecoveryOutcomes['strategy'],
    automatic: row.automatic === 'true',
    recoveries: Number(row.recoveries),
    completed: Number(row.completed),
    failed: Number(row.failed),
    unfinished: Number(row.unfinished),
    refused: Number(row.refused),
  }))
}

async function timeInErrors({ database, schema, filter }: Parts): Promise<TimeInError[]> {
  const { matches, values } = statement(filter)
  const rows = await database.query(
    `select agent, code, count(*) as times, count(*) filter (where ended is null) as open, round(sum(lasted)) as total,
       round(percentile_cont(0.5) within group (order by lasted)) as median, round(max(lasted)) as longest
     from (
       select e.agent, coalesce(e.code, e.class) as code, l.ended,
         extract(epoch from coalesce(l.ended, greatest(now(), e.at)) - e.at) * 1000 as lasted
       from ${schema.table('errors')} e left join lateral (
         select n.at as ended from ${schema.table('events')} n
         where n.session_id = e.session_id and n.seq > e.seq
           and (n.type in ${ERROR_EXITS} or (n.type = 'session_resumed' and e.retryable))
         order by n.seq limit 1
       ) l on true
       where e.context = 'run' and ${matches('e')}
     ) spans
     group by 1, 2 order by total desc, agent, code limit ${ROWS}`,
    values,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    code: textIn(row, 'code'),
    times: Number(row.times),
    open: Number(row.open),
    totalMs: Number(row.total),
    medianMs: Number(row.median),
    longestMs: Number(row.longest),
  }))
}
