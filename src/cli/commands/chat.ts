// `pawl chat <agent>`: a conversation in the terminal.
import { Command, Option } from 'commander'
import type { Json } from '../../session/json.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { converse } from '../chat/conversation.ts'
import { CliError } from '../errors.ts'
import { jsonOf, severalOf } from '../options.ts'
import { defined } from '../../session/defined.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

interface ChatOptions extends DeploymentOptions {
  resume?: string
  session?: string
  context?: Json
  tag?: string[]
}

export function chatCommand(): Command {
  return aboutDeployment(
    new Command('chat')
      .description('talk to an agent; lines from a pipe are sent one by one, each after the previous answer')
      .argument('[agent]', "the agent's name; not needed with --resume")
      .addOption(
        new Option('--resume <id>', 'show the conversation of a session so far and continue it, even if its workflow has closed').conflicts(
          ['session', 'context', 'tag'],
        ),
      )
      .option('--session <id>', 'id of the session (default: a new id)')
      .option('--context <json>', "the session's context, as the agent's schema requires", jsonOf)
      .option('--tag <tags>', "the session's tags, separated by commas", severalOf),
  ).action(chat)
}

async function chat(agent: string | undefined, options: ChatOptions): Promise<void> {
  const { resume, session, context, tag: tags } = options
  if (agent === undefined && resume === undefined) {
    throw new CliError(
      'invalid_usage',
      `No agent was named. Use \`${SUGGESTIONS.chat()}\`, or \`${SUGGESTIONS.resumeChat({ session: '<session>' })}\` to continue a session.`,
    )
  }
  const end = await onDeployment(options, (pawl) =>
    converse(pawl, {
      ...defined({ agent, context, tags, sessionId: session, resume }),
    }),
  )
  if (end !== 'ok') process.exitCode = end === 'left' ? 130 : 1
}
