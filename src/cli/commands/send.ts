// `pawl send <session> <text>`: sends a message to a session.
import { Command } from 'commander'
import { defined } from '../../session/defined.ts'
import type { Duration } from '../../session/duration.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import type { SessionOptions } from '../../client/index.ts'
import type { Json } from '../../session/json.ts'
import { jsonOf, jsonOption } from '../options.ts'
import { severalOf } from '../queries.ts'

interface SendCommandOptions extends DeploymentOptions {
  agent?: string
  context?: Json
  tag?: string[]
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
    .option('--context <json>', "the context of a session that the message starts, as the agent's schema requires", jsonOf)
    .option('--tag <tags>', 'tags of a session that the message starts, separated by commas', severalOf)
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
  const { agent, context, tag: tags, messageId, deadline, interrupt, json } = options
  const run = await onDeployment(options, (pawl) =>
    pawl.session(session, defined({ agent, context, tags }) as SessionOptions).send(text, defined({ messageId, deadline, interrupt })),
  )
  const line = json
    ? JSON.stringify({ event: 'sent', sessionId: session, messageId: run.messageId })
    : `message ${run.messageId} is sent to session ${session}`
  process.stdout.write(`${line}\n`)
}
