// What the commands by which a person speaks to a waiting call share: which call, who says it, and how it is told.
import { Command } from 'commander'
import type { SessionHandle } from '../client/index.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from './connecting.ts'
import { jsonOption } from './options.ts'
import { printable } from './terminal.ts'
import { defined } from '../session/defined.ts'

/** Of all of them. */
export interface DecidingOptions extends DeploymentOptions {
  by?: string
  note?: string
  json?: true
}

/** A command about one call. */
export function decidingCommand(name: string, description: string): Command {
  return aboutDeployment(
    new Command(name)
      .description(description)
      .argument('<session>', "the session's id")
      .argument('<call>', "the call's id, as `pawl pending` lists it"),
  )
    .option('--by <who>', 'who says so, for the record')
    .addOption(jsonOption())
}

/** Who says it, and why. */
export function saidBy({ by, note }: DecidingOptions): { by?: string; note?: string } {
  return { ...defined({ by, note }) }
}

/** Says it to the session, and tells what came of it: a line, or with `--json` an object. */
export async function decide(
  options: DecidingOptions,
  sessionId: string,
  work: (session: SessionHandle) => Promise<{ event: string; callId: string; text: string } & Record<string, unknown>>,
): Promise<void> {
  const { text, ...told } = await onDeployment(options, (pawl) => work(pawl.session(sessionId)))
  process.stdout.write(`${options.json ? JSON.stringify({ ...told, sessionId }) : printable(text)}\n`)
}

/** The digest that was given, else that of the arguments which the call has now. */
export async function digestOf(session: SessionHandle, callId: string, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  const { current } = await session.state()
  const leftOut = current?.leftOut?.find((call) => call.callId === callId)
  // Without one the session says what is wrong with the call.
  return current?.calls.find((call) => call.callId === callId)?.asked?.digest ?? leftOut?.inputDigest ?? ''
}
