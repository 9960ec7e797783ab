// `pawl fork <session>`: makes a new session that begins with another one's past.
import { Command, Option } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { jsonOption } from '../options.ts'
import { type TargetOptions, targetIn, withTarget } from '../target.ts'
import { defined } from '../../session/defined.ts'

interface ForkCommandOptions extends DeploymentOptions, TargetOptions {
  id?: string
  keys: 'carried' | 'forgotten'
  interrupt: boolean
  by?: string
  json?: true
}

/** The command. */
export function forkCommand(): Command {
  const command = new Command('fork')
    .description("make a new session from a point of a session's past (default: where it is now); they share nothing afterwards")
    .argument('<session>', "the session's id")
  return aboutDeployment(withTarget(command))
    .option('--id <id>', "the new session's id (default: a new one)")
    .addOption(
      new Option('--keys <what>', 'whether effects under keys of the whole session count as completed in the fork')
        .choices(['carried', 'forgotten'])
        .default('carried'),
    )
    .option('--no-interrupt', 'let a run that is going on go on, and fork from before it')
    .option('--by <who>', 'who has it done, for the record')
    .addOption(jsonOption())
    .action(fork)
}

async function fork(session: string, options: ForkCommandOptions): Promise<void> {
  const { id, keys, interrupt, by, json } = options
  const target = targetIn(options)
  const copy = await onDeployment(options, async (pawl) => {
    const made = await pawl.session(session).fork({
      ...target,
      keys,
      interrupt,
      ...defined({ id, by }),
    })
    return made.id
  })
  process.stdout.write(
    json ? `${JSON.stringify({ event: 'forked', sessionId: copy, from: session })}\n` : `session ${copy}, forked from ${session}\n`,
  )
}
