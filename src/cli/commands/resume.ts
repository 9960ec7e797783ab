// `pawl resume <session>`: opens a session again whose workflow has closed; a run that had been cut off goes on.
import { Command } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { linesOfState } from '../chat/lines.ts'
import { jsonOption } from '../options.ts'

/** The command. */
export function resumeCommand(): Command {
  return aboutDeployment(
    new Command('resume')
      .description('open a session again whose workflow has closed, in whatever way; a run that had been cut off goes on')
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
}
