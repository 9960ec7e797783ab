// `pawl prune --older-than <age>`: archives the messages of closed sessions, deletes their other rows, and deletes old archived messages.
import { Command } from 'commander'
import type { PruneReport } from '../../client/index.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption, jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { listenForStop, stopSignalOf } from '../running/stop.ts'
import type { Duration } from '../../session/duration.ts'
import { defined } from '../../session/defined.ts'
import { counted } from '../../session/counted.ts'

interface PruneCommandOptions extends DeploymentOptions {
  olderThan: Duration
  archiveRetention?: Duration
  batch?: string
  dryRun?: true
  by: string
  json?: true
}

export function pruneCommand(): Command {
  return aboutDeployment(
    new Command('prune')
      .description(
        'move the messages of closed sessions to the archive and delete their other rows, in batches; you can stop it at any time',
      )
      .requiredOption('--older-than <age>', "prune closed sessions in which nothing has happened for this long, such as '90d'; required")
      .option('--archive-retention <age>', 'also delete messages that were archived longer ago than this (default: keep them)')
      .option('--batch <n>', 'sessions per transaction (default: 20)')
      .option('--dry-run', 'only count what would be moved and deleted')
      .addOption(byOption()),
  )
    .addOption(jsonOption())
    .action(prune)
}

/** Exit code 1: the command was stopped. */
async function prune(options: PruneCommandOptions): Promise<void> {
  const { olderThan, archiveRetention, batch, dryRun, by, json } = options
  const report = await onDeployment(options, (pawl) =>
    pawl.prune({
      olderThan,
      ...defined({ archiveRetention }),
      ...(batch !== undefined && { batch: Number(batch) }),
      ...(dryRun && { dryRun }),
      by,
      signal: stopSignalOf(listenForStop()),
      onBatch: (soFar) => json && say(JSON.stringify({ event: 'batch', ...soFar })),
    }),
  )
  if (json) say(JSON.stringify({ event: dryRun ? 'would_prune' : 'pruned', ...report }))
  else for (const line of linesOfReport(report, dryRun ? 'would be pruned' : 'pruned')) say(line)
  if (report.stopped) process.exitCode = 1
}

/** A closed session that changed within this time may be about to resume, so it is not pruned. */
const MAY_RESUME_MS = 600_000

/** Rows that are not deleted. */
const LABELS: Readonly<Record<string, string>> = {
  archived_messages: 'messages, to archived_messages',
  completed_keys: 'keys of effects, kept in completed_keys',
}

function linesOfReport({ before, sessions, rows, archive, stopped }: PruneReport, what: string): string[] {
  const counts = Object.entries(rows).filter(([, n]) => n > 0)
  return [
    `${counted(sessions, 'closed session')}, inactive since ${before.toISOString()} or earlier, ${what}`,
    ...(Date.now() - before.getTime() < MAY_RESUME_MS
      ? ['Sessions that changed in the last 10 minutes were skipped: they may resume.']
      : []),
    ...counts.map(([table, n]) => `  ${String(n).padStart(10)} ${LABELS[table] ?? table}`),
    ...(archive
      ? [
          `${counted(archive.messages, 'message')}, archived before ${archive.before.toISOString()}, and ${counted(archive.blobs, 'large value')} ${what}`,
        ]
      : []),
    ...(stopped ? ['Stopped: run the command again for the rest.'] : []),
  ]
}
