// Statistics of failures in a time span: runs that failed, failures that repeat, what recoveries led to, and time spent in errors.
import { dateIn, ms, textIn } from '../../postgres/columns.ts'
import type { Queryable, TextRow } from '../../postgres/database.ts'
import { newStatement } from '../../postgres/insert-rows.ts'
import { safeKey } from '../../postgres/sanitise.ts'
import type { PostgresSchema } from '../../postgres/schema.ts'
import type { AgentFailures, FailureCause, FailureReport, RecoveryOutcomes, RepeatedFailure, TimeInError } from '../../sums.ts'
import type { FailureFilter } from '../../filters.ts'

/** Maximum rows of each part; people do not read more. */
const ROWS = 100

/**
 * See `Lists.failures`; `database` must be a snapshot, or the parts would contradict each other. The views that it
 * reads are for operators, too (docs/sql.md).
 */
export async function readFailures(database: Queryable, schema: PostgresSchema, filter: FailureFilter): Promise<FailureReport> {
  const parts = { database, schema, filter }
  const agents = await failuresByAgent(parts)
  const causes = await failuresByCause(parts)
  const repeated = await repeatedFailures(parts)
  const recoveries = await recoveryOutcomes(parts)
  const timeInError = await timeInErrors(parts)
  return { since: filter.since, agents, causes, repeated, recoveries, timeInError }
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
  const matches = (row: string, at = 'at'): string =>
    [
      `${row}.${at} >= ${from}::timestamptz`,
      ...(to ? [`${row}.${at} < ${to}::timestamptz`] : []),
      ...(name ? [`${row}.agent = ${name}`] : []),
      ...(begin ? [`starts_with(${row}.session_id, ${begin}::text)`] : []),
    ].join(' and ')
  return { matches, values }
}

/** Columns that count failures by their outcome; `subject` identifies what failed. */
const byOutcome = (subject: string): string =>
  ['healed_by_itself', 'healed_by_person', 'rolled_back', 'given_up', 'open']
    .map((outcome) => `count(distinct ${subject}) filter (where outcome = '${outcome}') as ${outcome}`)
    .join(', ')

const outcomesIn = (row: TextRow): Pick<AgentFailures, 'healedByItself' | 'healedByPerson' | 'rolledBack' | 'givenUp' | 'open'> => ({
  healedByItself: Number(row.healed_by_itself),
  healedByPerson: Number(row.healed_by_person),
  rolledBack: Number(row.rolled_back),
  givenUp: Number(row.given_up),
  open: Number(row.open),
})

async function failuresByAgent({ database, schema, filter }: Parts): Promise<AgentFailures[]> {
  const { matches, values } = statement(filter)
  const [errors, usage] = [schema.table('errors'), schema.table('token_usage')]
  const rows = await database.query(
    `with failed as (
       select f.session_id, f.run, f.agent, bool_or(not f.retryable) as failed, max(f.outcome) as outcome from ${schema.table('failures')} f
       where f.what = 'run' and f.run is not null and ${matches('f')} group by 1, 2, 3
     ), attempts as (
       select e.agent, count(*) as attempts from ${errors} e where e.attempt is not null and ${matches('e')} group by 1
     ), runs as (
       select u.session_id, u.run, u.agent from ${usage} u where ${matches('u')} union select session_id, run, agent from failed
     )
     select agent, count(runs.run) as runs, count(*) filter (where failed.failed) as failed, count(*) filter (where not failed.failed) as held_up,
       coalesce(max(attempts), 0) as attempts,
       ${byOutcome('(session_id, run)').replaceAll('filter (where', 'filter (where failed.failed and')}
     from runs left join failed using (session_id, run, agent) full join attempts using (agent)
     group by agent order by failed desc, attempts desc, agent limit ${ROWS}`,
    values,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    runs: Number(row.runs),
    failed: Number(row.failed),
    ...outcomesIn(row),
    heldUp: Number(row.held_up),
    failedAttempts: Number(row.attempts),
  }))
}

async function failuresByCause({ database, schema, filter }: Parts): Promise<FailureCause[]> {
  const { matches, values } = statement(filter)
  const rows = await database.query(
    `select *, ${ms('newest')} from (
       select f.agent, f.what, f.tool, f.code, count(e.at_seq) as errors, count(distinct (f.session_id, f.subject)) as failures,
         max(f.at) as newest, ${byOutcome('(f.session_id, f.subject)')}
       from ${schema.table('failures')} f left join (select session_id as id, seq as at_seq from ${schema.table('errors')}) e
         on e.id = f.session_id and e.at_seq = f.seq
       where ${matches('f')}
       group by 1, 2, 3, 4
     ) causes order by open + given_up desc, failures desc, agent, what, tool, code limit ${ROWS}`,
    values,
  )
  return rows.map((row) => ({
    agent: textIn(row, 'agent'),
    what: row.what as FailureCause['what'],
    tool: row.tool ?? null,
    code: textIn(row, 'code'),
    errors: Number(row.errors),
    failures: Number(row.failures),
    ...outcomesIn(row),
    newest: dateIn(row, 'newest'),
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
    `select agent, strategy, automatic::text as automatic, count(*) filter (where not refused) as recoveries,
       count(*) filter (where outcome = 'completed') as completed, count(*) filter (where outcome = 'failed') as failed,
       count(*) filter (where outcome = 'unfinished') as unfinished, count(*) filter (where refused) as refused
     from ${schema.table('recovery_outcomes')} r where ${matches('r')}
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
    `select t.agent, t.code, count(*) as times, count(*) filter (where t.ended_at is null) as open, round(sum(l.ms)) as total,
       round(percentile_cont(0.5) within group (order by l.ms)) as median, round(max(l.ms)) as longest
     from ${schema.table('time_in_error')} t cross join lateral (select extract(epoch from t.lasted) * 1000 as ms) l
     where ${matches('t', 'entered_at')}
     group by 1, 2 order by total desc, 1, 2 limit ${ROWS}`,
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
