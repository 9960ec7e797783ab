// Shared by `pawl pause` and `pawl unpause`: the request and the output.
import { Command } from 'commander'
import type { By, SessionHandle } from '../client/types.ts'
import { defined } from '../session/defined.ts'
import { linesOfState } from './chat/lines.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from './connecting.ts'
import { byOption } from './operator.ts'
import { jsonOption } from './options.ts'

interface PauseCommandOptions extends DeploymentOptions {
  by: string
  reason?: string
  json?: true
}

/** What one of the two commands does. */
interface Pausing {
  description: string
  ask(session: SessionHandle, by: By): Promise<{ already: boolean }>
  event: 'paused' | 'unpaused'
  /** The text that is printed if nothing has changed. */
  already: string
}

/** The command, whose action prints the session's state. */
export function pausingCommand(name: string, pausing: Pausing): Command {
  return aboutDeployment(new Command(name).description(pausing.description).argument('<session>', "the session's id"))
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
    .action((session: string, options: PauseCommandOptions) => carryOut(session, options, pausing))
}

async function carryOut(session: string, options: PauseCommandOptions, { ask, event, already: nothing }: Pausing): Promise<void> {
  const { by, reason, json } = options
  const { already, state } = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    const answer = await ask(handle, { by, ...defined({ reason }) })
    return { already: answer.already, state: await handle.state() }
  })
  const lines = json ? [JSON.stringify({ event, already, ...state })] : [...linesOfState(state), ...(already ? [`  ${nothing}`] : [])]
  process.stdout.write(`${lines.join('\n')}\n`)
}
