// `pawl recover` with filters: recovers all sessions in error that match them.
import { type Command, InvalidArgumentError } from 'commander'
import type { BulkRecoveryReport } from '../client/index.ts'
import { momentOf, severalOf } from './options.ts'
import { say, type SpanCommandOptions, timeOf, warnOfUnknownAgents } from './queries.ts'
import { type DeploymentOptions, onDeployment } from './connecting.ts'
import { CliError } from './errors.ts'
import { listenForStop, stopSignalOf } from './running/stop.ts'
import { oneLine, paint, type Style } from './terminal.ts'
import { defined } from '../session/defined.ts'
import { counted } from '../session/counted.ts'
import type { BulkRecoverySession } from '../client/admin/recovery-options.ts'
import type { RecoverOptions } from '../client/types.ts'

/** Options that only a recovery in bulk accepts. */
interface BulkOptions extends SpanCommandOptions {
  code?: string[]
  agent?: string
  tag?: string[]
  all?: true
  dryRun?: true
  rate?: number
  limit?: number
}

export interface RecoverCommandOptions extends DeploymentOptions, BulkOptions {
  strategy?: NonNullable<RecoverOptions['strategy']>
  keep?: string[]
  skip?: string[]
  redo?: string[]
  force?: true
  by: string
  reason?: string
  json?: true
}

/** Adds the options that only a recovery in bulk accepts. */
export function withBulk(command: Command): Command {
  return command
    .optionsGroup('In bulk, without a session:')
    .option('--code <codes>', 'sessions with an error of one of these codes, separated by commas', severalOf)
    .option('--agent <name>', 'sessions of this agent')
    .option('--tag <tags>', 'sessions that have all of these tags, separated by commas', severalOf)
    .option('--since <when>', "errors since then: an age such as '1h', or a time such as 2026-11-21T12:00:00Z", momentOf)
    .option('--until <when>', 'errors before then', momentOf)
    .option('--all', 'every session in error; required if there is no other filter')
    .option('--dry-run', 'only list the sessions that match the filters')
    .option('--rate <n>', 'recoveries per second (default: 10)', numberOf)
    .option('--limit <n>', 'the maximum number of sessions (default: all)', numberOf)
}

function numberOf(text: string): number {
  const number = Number(text)
  if (!(number > 0)) throw new InvalidArgumentError('Use a number above 0.')
  return number
}

const FLAGS: Record<keyof BulkOptions, string> = {
  code: '--code',
  agent: '--agent',
  tag: '--tag',
  since: '--since',
  until: '--until',
  all: '--all',
  dryRun: '--dry-run',
  rate: '--rate',
  limit: '--limit',
}
const FILTERS = [FLAGS.code, FLAGS.agent, FLAGS.tag, FLAGS.since, FLAGS.until, FLAGS.all]

/** The bulk options that were passed, as they are typed. */
export function bulkOptionsIn(options: BulkOptions): string[] {
  return Object.entries(FLAGS).flatMap(([name, flag]) => (options[name as keyof BulkOptions] === undefined ? [] : [flag]))
}

/** Exit code 1: a session was refused or failed, or the command was stopped. @throws CliError `invalid_usage` without a filter. */
export async function recoverInBulk(options: RecoverCommandOptions): Promise<void> {
  const { strategy } = options
  if (strategy === 'selective' || options.keep || options.skip || options.redo || options.force) {
    throw new CliError(
      'invalid_usage',
      '--keep, --skip and --redo need a session. Put its id before them, because they consume all words that follow.',
    )
  }
  if (!bulkOptionsIn(options).some((flag) => FILTERS.includes(flag))) {
    throw new CliError(
      'invalid_usage',
      `No session was selected. Name a session, or filter by ${FILTERS.slice(0, -1).join(', ')}; --all selects every session in error.`,
    )
  }
  const { code, agent, tag: tags, since, until, all, by, reason, dryRun, rate: perSecond, limit, json } = options
  const suggested = new Map<string, number>()
  const report = await onDeployment(options, (pawl) =>
    pawl.recover({
      by,
      ...defined({ code, agent, tags, since, until, all, strategy, reason, dryRun, perSecond, limit }),
      onSession(session) {
        const { strategy: best } = session.error
        suggested.set(best, (suggested.get(best) ?? 0) + 1)
        say(json ? JSON.stringify({ event: 'session', ...session }) : lineOf(session))
      },
      signal: stopSignalOf(listenForStop()),
    }),
  )
  if (report.sessions === 0) await warnOfUnknownAgents(options, [agent])
  const { problems: _, ...sums } = report
  if (json) say(JSON.stringify({ event: dryRun ? 'would_recover' : 'recovered', ...sums }))
  else say(dryRun ? lineOfDryRun(report, suggested) : lineOfReport(report))
  if (report.refused > 0 || report.failed > 0 || report.stopped) process.exitCode = 1
}

const STYLES: Record<BulkRecoverySession['outcome'], Style> = {
  recovered: 'green',
  not_in_error: 'dim',
  refused: 'yellow',
  failed: 'red',
  found: 'reset',
}

function lineOf({ sessionId, agent, error, outcome, problem }: BulkRecoverySession): string {
  const since = `since ${timeOf(new Date(error.at))}`
  const what = [sessionId, agent, error.code, since].map((part) => oneLine(part)).join('  ')
  if (outcome === 'found') return `${what}  ${wayOut(error)}`
  const why = problem ? `  ${oneLine(`${problem.code}: ${problem.message}`)}` : ''
  return `${paint(STYLES[outcome], outcome.padEnd('not_in_error'.length))}  ${what}${why}`
}

/** How a session would leave its error. */
function wayOut({ strategy, nextAttemptAt }: BulkRecoverySession['error']): string {
  if (strategy === 'automatic') return 'continues by itself once the cause is resolved'
  const next = nextAttemptAt === undefined ? '' : `; by itself at ${timeOf(new Date(nextAttemptAt))}`
  return `suggested: ${strategy}${next}`
}

function lineOfDryRun({ sessions, stopped }: BulkRecoveryReport, suggested: ReadonlyMap<string, number>): string {
  const counts = [...suggested].map(([strategy, n]) => `${n} ${strategy}`).join(', ')
  const sums = `${counted(sessions, 'session')} in error${counts === '' ? '' : `: ${counts}`}`
  return stopped ? `${sums}. Stopped before the last one.` : `${sums}. Nothing has changed.`
}

function lineOfReport({ sessions, recovered, notInError, refused, failed, stopped }: BulkRecoveryReport): string {
  const sums = `${counted(sessions, 'session')}: ${recovered} recovered, ${notInError} no longer in error, ${refused} refused, ${failed} failed`
  return stopped ? `${sums}. Stopped: run the command again for the rest.` : sums
}
