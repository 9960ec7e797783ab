// `pawl recover <session>`: takes a session out of its error.
import { Command, Option } from 'commander'
import { linesOfState } from '../chat/lines.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { jsonOption } from '../options.ts'
import { operator } from '../operator.ts'
import type { RecoverOptions } from '../../client/types.ts'
import { defined } from '../../session/defined.ts'
import { RECOVERIES } from '../../session/recovery.ts'

interface RecoverCommandOptions extends DeploymentOptions {
  strategy?: NonNullable<RecoverOptions['strategy']>
  by?: string
  reason?: string
  json?: true
}

/** The command. */
export function recoverCommand(): Command {
  return aboutDeployment(
    new Command('recover')
      .description('take a session out of its error; effects that its run completed are not repeated')
      .argument('<session>', "the session's id"),
  )
    .addOption(new Option('--strategy <strategy>', 'how; default: as `pawl show` suggests for the error').choices(RECOVERIES))
    .option('--by <who>', "who requests it; recorded (default: the operating system's user)")
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
    .action(recover)
}

async function recover(session: string, options: RecoverCommandOptions): Promise<void> {
  const { strategy, by = operator(), reason, json } = options
  const state = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    await handle.recover(defined({ strategy, by, reason }))
    return handle.state()
  })
  const lines = json ? [JSON.stringify({ event: 'recovered', ...state })] : linesOfState(state)
  process.stdout.write(`${lines.join('\n')}\n`)
}
