// `pawl send <session> <text>`: sends a message to a session.
import { Command } from 'commander'
import { defined } from '../../session/defined.ts'
import type { Duration } from '../../session/duration.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { jsonOption } from '../options.ts'

interface SendCommandOptions extends DeploymentOptions {
  agent?: string
  messageId?: string
  deadline?: Duration
  interrupt?: true
  json?: true
}

/** The command. */
export function sendCommand(): Command {
  return aboutDeployment(
    new Command('send')
      .description('send a message to a session; it is recorded when the command ends, even with no worker running')
      .argument('<session>', "the session's id")
      .argument('<text>', 'the message'),
  )
    .option('--agent <name>', 'the agent: required to start a session, or to resume one whose workflow has closed')
    .option('--message-id <id>', "the message's id; pawl accepts each id once (default: a new id)")
    .option(
      '--deadline <duration>',
      'how long the answer may take, such as 5m; after that, the run that has the message fails (default: no limit)',
    )
    .option('--interrupt', 'stop the run in progress; the message opens the next one')
    .addOption(jsonOption())
    .action(send)
}

async function send(session: string, text: string, options: SendCommandOptions): Promise<void> {
  const { agent, messageId, deadline, interrupt, json } = options
  const run = await onDeployment(options, (pawl) =>
    pawl.session(session, defined({ agent })).send(text, defined({ messageId, deadline, interrupt })),
  )
  const line = json
    ? JSON.stringify({ event: 'sent', sessionId: session, messageId: run.messageId })
    : `message ${run.messageId} is sent to session ${session}`
  process.stdout.write(`${line}\n`)
}
