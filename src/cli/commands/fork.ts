// `pawl fork <session>`: creates a session that begins with another one's past.
import { Command, Option } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'
import { type TargetOptions, targetIn, withTarget } from '../target.ts'
import { defined } from '../../session/defined.ts'

interface ForkCommandOptions extends DeploymentOptions, TargetOptions {
  id?: string
  keys: 'carried' | 'forgotten'
  interrupt: boolean
  by: string
  json?: true
}

/** The command. */
export function forkCommand(): Command {
  const command = new Command('fork')
    .description("create a session from a point of another session's past (default: its current state); they share nothing afterwards")
    .argument('<session>', "the session's id")
  return aboutDeployment(withTarget(command))
    .option('--id <id>', "the new session's id (default: a new id)")
    .addOption(
      new Option('--keys <what>', 'whether effects that completed under keys of the whole session count as completed in the fork')
        .choices(['carried', 'forgotten'])
        .default('carried'),
    )
    .option('--no-interrupt', 'do not interrupt a run in progress; the fork begins before it')
    .addOption(byOption())
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
      by,
      ...defined({ id }),
    })
    return made.id
  })
  process.stdout.write(
    json ? `${JSON.stringify({ event: 'forked', sessionId: copy, from: session })}\n` : `session ${copy}, forked from ${session}\n`,
  )
}
