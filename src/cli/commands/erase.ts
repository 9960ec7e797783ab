// `pawl erase <id>`: deletes a session's content permanently, in the side store and in Temporal.
import { Command } from 'commander'
import type { EraseReport } from '../../client/index.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { jsonOption } from '../options.ts'
import { defined } from '../../session/defined.ts'

interface EraseCommandOptions extends DeploymentOptions {
  by: string
  reason?: string
  force?: true
  json?: true
}

/** The command. */
export function eraseCommand(): Command {
  return aboutDeployment(
    new Command('erase')
      .description(
        "permanently delete a session's content: its rows, its archive and its histories in Temporal; a row in `audit` records who and why",
      )
      .argument('<session>', "the session's id")
      .requiredOption('--by <who>', 'who requests it; recorded')
      .option('--reason <text>', 'the reason; recorded')
      .option('--force', 'terminate the session if it is open'),
  )
    .addOption(jsonOption())
    .action(erase)
}

async function erase(session: string, options: EraseCommandOptions): Promise<void> {
  const { by, reason, force, json } = options
  const report = await onDeployment(options, (pawl) => pawl.erase(session, { by, ...defined({ reason }), ...(force && { force }) }))
  const lines = json ? [JSON.stringify({ event: 'erased', ...report })] : linesOfReport(report)
  for (const line of lines) process.stdout.write(`${line}\n`)
}

function linesOfReport({ sessionId, terminated, executions, rows, forks, parent, leftovers }: EraseReport): string[] {
  const counts = Object.entries(rows).filter(([, n]) => n > 0)
  return [
    `session ${sessionId} erased${terminated ? '; it was open and has been terminated' : ''}`,
    ...counts.map(([table, n]) => `  ${String(n).padStart(10)} ${table}`),
    `  ${String(executions).padStart(10)} histories in Temporal`,
    ...(forks.length > 0 ? [`Its forks have their own copies of its past: ${forks.join(', ')}`] : []),
    ...(parent === null ? [] : [`It was forked from ${parent}, which still has the inherited past.`]),
    `pawl cannot reach: ${leftovers.join('; ')}.`,
  ]
}
