// `pawl regenerate <session>`: has the newest message answered again.
import { Command } from 'commander'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { jsonOption } from '../options.ts'
import { byOption } from '../operator.ts'
import { defined } from '../../session/defined.ts'

interface RegenerateCommandOptions extends DeploymentOptions {
  by: string
  reason?: string
  json?: true
}

/** The command. */
export function regenerateCommand(): Command {
  return aboutDeployment(
    new Command('regenerate')
      .description("answer the newest run's message again; effects that the run completed are replayed, not repeated")
      .argument('<session>', "the session's id"),
  )
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
    .action(regenerate)
}

async function regenerate(session: string, options: RegenerateCommandOptions): Promise<void> {
  const { by, reason, json } = options
  const { messageId } = await onDeployment(options, (pawl) => pawl.session(session).regenerate({ by, ...defined({ reason }) }))
  const line = json
    ? JSON.stringify({ event: 'regenerated', sessionId: session, messageId })
    : `message ${messageId} of session ${session} is being answered again`
  process.stdout.write(`${line}\n`)
}
