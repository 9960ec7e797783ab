// `pawl rebuild [session]`: restores rows of the side store from Temporal's histories, and reports what is lost.
import { Command } from 'commander'
import { NOT_REBUILT } from '../../client/admin/not-rebuilt.ts'
import type { RebuildReport } from '../../client/index.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption, jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { listenForStop, stopSignalOf } from '../running/stop.ts'
import { oneLine, paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'
import { counted } from '../../session/counted.ts'
import type { RebuiltSession } from '../../client/admin/rebuild.ts'

interface RebuildCommandOptions extends DeploymentOptions {
  everyQueue?: true
  by: string
  json?: true
}

export function rebuildCommand(): Command {
  return aboutDeployment(
    new Command('rebuild')
      .description(
        "restore the rows of sessions from Temporal's histories, for example after a DROP SCHEMA; needs a worker on their task queue",
      )
      .argument('[session]', 'only this session (default: all sessions of the task queue that Temporal still has)'),
  )
    .option('--every-queue', 'restore sessions of all task queues of the namespace')
    .addOption(byOption())
    .addOption(jsonOption())
    .action(rebuild)
}

/** Exit code 1: at least one session is incomplete. */
async function rebuild(session: string | undefined, options: RebuildCommandOptions): Promise<void> {
  const { json, by, everyQueue } = options
  const told = new Set<string>()
  const report = await onDeployment(options, (pawl) =>
    pawl.rebuild({
      ...defined({ session }),
      ...(everyQueue && { taskQueue: '*' }),
      by,
      onSession: (done) => (json ? say(JSON.stringify({ event: 'session', ...done })) : linesOfSession(done, told).forEach(say)),
      signal: stopSignalOf(listenForStop()),
    }),
  )
  const { incomplete, ...sums } = report
  say(json ? JSON.stringify({ event: 'rebuilt', ...sums }) : linesOfReport(report))
  if (!json && report.events > 0) say(paint('dim', NOT_RESTORED))
  if (incomplete.length > 0 || report.stopped) process.exitCode = 1
}

const NOT_RESTORED = `Temporal does not have these tables; restore them from a backup: ${Object.keys(NOT_REBUILT).join(', ')}.`

/** Lines for a person; none for a complete session. An error that many sessions share is explained once. */
function linesOfSession({ sessionId, outcome, events, upTo, missing, missingValues, error }: RebuiltSession, told: Set<string>): string[] {
  if (outcome === 'complete') return []
  const why = error && (told.has(error.message) ? error.code : `${error.code}: ${error.message}`)
  if (error) told.add(error.message)
  const colour = outcome === 'restored' ? 'green' : outcome === 'partial' ? 'yellow' : 'red'
  return [
    `${paint(colour, outcome.padEnd(8))} ${sessionId}  ${counted(events, 'event')} restored, stored up to ${upTo}`,
    ...missing.map(({ fromSeq, toSeq }) => `  missing  events ${fromSeq} to ${toSeq}: no execution still has them`),
    ...missingValues.map(({ seq, sha256, bytes }) => `  missing  the value of event ${seq}: ${bytes} bytes, sha256 ${sha256}`),
    ...(why === undefined ? [] : [`  ${oneLine(why)}`]),
  ]
}

function linesOfReport({ sessions, complete, restored, partial, failed, events, stopped }: RebuildReport): string {
  const sums = `${counted(sessions, 'session')}: ${restored} restored, ${complete} were complete, ${partial} partial, ${failed} failed; ${counted(events, 'event')}`
  return stopped ? `${sums}. Stopped: run the command again for the rest.` : sums
}
