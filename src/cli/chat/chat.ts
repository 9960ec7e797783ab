// `pawl chat <agent>`: a conversation in the terminal.
import { Command, Option } from 'commander'
import type { Json } from '../../session/json.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { converse } from './conversation.ts'
import { CliError } from '../errors.ts'
import { jsonOf } from '../options.ts'
import { defined } from '../../session/defined.ts'

interface ChatOptions extends DeploymentOptions {
  resume?: string
  session?: string
  context?: Json
}

/** The command. */
export function chatCommand(): Command {
  return aboutDeployment(
    new Command('chat')
      .description('talk to an agent; lines from a pipe are sent one after another, each after the answer to the one before')
      .argument('[agent]', "the agent's name; with --resume it is known")
      .addOption(
        new Option('--resume <id>', 'go on with a session, also one whose workflow has closed; shows the conversation so far').conflicts([
          'session',
          'context',
        ]),
      )
      .option('--session <id>', 'id of the session (default: a new one)')
      .option('--context <json>', 'whom the session is for, as the agent declares it', jsonOf),
  ).action(chat)
}

async function chat(agent: string | undefined, options: ChatOptions): Promise<void> {
  const { resume, session, context } = options
  if (agent === undefined && resume === undefined) {
    throw new CliError(
      'invalid_usage',
      'Name the agent to talk to, pawl chat <agent>, or a session to go on with, pawl chat --resume <id>.',
    )
  }
  const end = await onDeployment(options, (pawl) =>
    converse(pawl, {
      ...defined({ agent, context, sessionId: session, resume }),
    }),
  )
  if (end !== 'ok') process.exitCode = end === 'left' ? 130 : 1
}
