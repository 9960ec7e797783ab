// `pawl resume <session>`: reopens a session whose workflow has closed and continues its interrupted run.
import { Command } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { linesOfState } from '../chat/lines.ts'
import { jsonOption } from '../options.ts'
import { failIfStopped } from '../outcome.ts'

/** The command. */
export function resumeCommand(): Command {
  return aboutDeployment(
    new Command('resume')
      .description('reopen a session whose workflow has closed, for whatever reason, and continue a run that was cut off')
      .argument('<session>', "the session's id"),
  )
    .addOption(jsonOption())
    .action(resume)
}

async function resume(session: string, options: DeploymentOptions & { json?: true }): Promise<void> {
  const state = await onDeployment(options, async (pawl) => {
    const opened = pawl.session(session)
    await opened.resume()
    return opened.state()
  })
  const lines = options.json ? [JSON.stringify({ event: 'resumed', ...state })] : linesOfState(state)
  process.stdout.write(`${lines.join('\n')}\n`)
  failIfStopped(state)
}
