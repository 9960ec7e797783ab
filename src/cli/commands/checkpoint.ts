// `pawl checkpoint <session>`: makes a checkpoint, or has it made when the open turn closes.
import { Command } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'
import { here } from '../here.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

interface CheckpointCommandOptions extends DeploymentOptions {
  by: string
  reason: string
  json?: true
}

/** The command. */
export function checkpointCommand(): Command {
  return aboutDeployment(
    new Command('checkpoint')
      .description('make a checkpoint of a session: a point to roll back to, or to fork from')
      .argument('<session>', "the session's id"),
  )
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded', 'requested')
    .addOption(jsonOption())
    .action(checkpoint)
}

async function checkpoint(session: string, options: CheckpointCommandOptions): Promise<void> {
  const { by, reason, json } = options
  const { version, made } = await onDeployment(options, (pawl) => pawl.session(session).checkpoint(reason, { by }))
  const line = json
    ? JSON.stringify({ event: made ? 'checkpoint_made' : 'checkpoint_requested', sessionId: session, version })
    : `checkpoint ${version} of session ${session}${made ? '' : ', once its turn has closed'}: ${here(SUGGESTIONS.rollback({ session, checkpoint: version }))}`
  process.stdout.write(`${line}\n`)
}
