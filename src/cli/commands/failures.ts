// `pawl failures`: statistics of failures: by agent, repeated ones, what recoveries led to, and time in error.
import type { Command } from 'commander'
import {
  type QueryOptions,
  queryCommand,
  queryStore,
  say,
  spanOf,
  type SpanCommandOptions,
  timeOf,
  warnOfUnknownAgents,
  withSpan,
} from '../queries.ts'
import { paint } from '../terminal.ts'
import { type Column, linesOfTable } from '../table.ts'
import { defined } from '../../session/defined.ts'
import { durationText } from '../../session/duration.ts'
import type { AgentFailures, FailureCause, RecoveryOutcomes, RepeatedFailure, TimeInError } from '../../store/sums.ts'

interface FailuresOptions extends QueryOptions, SpanCommandOptions {
  agent?: string
}

const AGENTS: Column<AgentFailures>[] = [
  { name: 'agent', of: (row) => row.agent },
  { name: 'runs', of: (row) => row.runs, right: true, optional: true },
  { name: 'failed', of: (row) => row.failed, right: true },
  { name: 'by itself', of: (row) => row.healedByItself, right: true },
  { name: 'by a person', of: (row) => row.healedByPerson, right: true },
  { name: 'rolled back', of: (row) => row.rolledBack, right: true },
  { name: 'given up', of: (row) => row.givenUp, right: true },
  { name: 'open', of: (row) => row.open, right: true },
  { name: 'rate', of: rateOf, right: true },
  { name: 'held up', of: (row) => row.heldUp, right: true, optional: true },
  { name: 'failed attempts', of: (row) => row.failedAttempts },
]

/** The percentage of runs that failed and did not heal by themselves. */
function rateOf({ runs, failed, healedByItself }: AgentFailures): string | null {
  return runs === 0 ? null : `${((100 * (failed - healedByItself)) / runs).toFixed(1)} %`
}

const CAUSES: Column<FailureCause>[] = [
  { name: 'agent', of: (row) => row.agent },
  { name: 'failed', of: (row) => (row.tool === null ? row.what : `tool ${row.tool}`) },
  { name: 'times', of: (row) => row.failures, right: true },
  { name: 'by itself', of: (row) => row.healedByItself, right: true },
  { name: 'by a person', of: (row) => row.healedByPerson, right: true },
  { name: 'rolled back', of: (row) => row.rolledBack, right: true },
  { name: 'given up', of: (row) => row.givenUp, right: true },
  { name: 'open', of: (row) => row.open, right: true },
  { name: 'rows', of: (row) => row.errors, right: true, optional: true },
  { name: 'newest', of: (row) => row.newest },
  { name: 'error', of: (row) => row.code },
]

const TIMES: Column<TimeInError>[] = [
  { name: 'agent', of: (row) => row.agent },
  { name: 'error', of: (row) => row.code },
  { name: 'times', of: (row) => row.times, right: true },
  { name: 'still', of: (row) => row.open, right: true },
  { name: 'median', of: (row) => durationText(row.medianMs), right: true },
  { name: 'longest', of: (row) => durationText(row.longestMs), right: true },
  { name: 'total', of: (row) => durationText(row.totalMs) },
]

const REPEATED: Column<RepeatedFailure>[] = [
  { name: 'session', of: (row) => row.sessionId, whole: true },
  { name: 'agent', of: (row) => row.agent },
  { name: 'times', of: (row) => row.times, right: true },
  { name: 'runs', of: (row) => row.runs, right: true, optional: true },
  { name: 'first', of: (row) => row.first, optional: true },
  { name: 'newest', of: (row) => row.newest },
  { name: 'error', of: (row) => row.code },
]

const OUTCOMES: Column<RecoveryOutcomes>[] = [
  { name: 'agent', of: (row) => row.agent },
  { name: 'recoveries', of: (row) => row.recoveries, right: true },
  { name: 'completed', of: (row) => row.completed, right: true },
  { name: 'failed again', of: (row) => row.failed, right: true },
  { name: 'unfinished', of: (row) => row.unfinished, right: true },
  { name: 'refused', of: (row) => row.refused, right: true },
  { name: 'by', of: (row) => (row.automatic ? 'pawl' : 'people') },
  { name: 'strategy', of: (row) => row.strategy },
]

export function failuresCommand(): Command {
  return withSpan(
    queryCommand(
      'failures',
      'show which failures healed, by agent, tool and code; time in error, repeated failures, outcomes of recoveries',
    ),
  )
    .option('--agent <name>', 'only this agent')
    .action(failures)
}

async function failures(options: FailuresOptions): Promise<void> {
  const { agent, json } = options
  const report = await queryStore(options, (queries) => queries.failures({ ...spanOf(options), ...defined({ agent }) }))
  if (report.agents.length === 0) await warnOfUnknownAgents(options, [agent])
  if (json) return say(JSON.stringify(report))
  const { since, agents, causes, timeInError, repeated, recoveries } = report
  say(`since ${timeOf(since)}`)
  const part = partOf(options)
  part('runs', AGENTS, agents)
  part('what failed', CAUSES, causes)
  part('time in error', TIMES, timeInError)
  part('repeated failures', REPEATED, repeated)
  part('recoveries', OUTCOMES, recoveries)
}

function partOf({ wide }: FailuresOptions) {
  return <T>(title: string, columns: readonly Column<T>[], rows: readonly T[]): void => {
    say(`\n${paint('bold', title)}${rows.length === 0 ? ': none' : ''}`)
    if (rows.length > 0) for (const line of linesOfTable(columns, rows, { wide })) say(line)
  }
}
