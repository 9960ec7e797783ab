// Shared by the commands for decisions on waiting calls: the call, the person, and the output.
import { Command } from 'commander'
import type { SessionHandle } from '../client/index.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from './connecting.ts'
import { here } from './here.ts'
import { byOption } from './operator.ts'
import { jsonOption } from './options.ts'
import { printable } from './terminal.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'
import { defined } from '../session/defined.ts'

/** Options of all these commands. */
export interface DecidingOptions extends DeploymentOptions {
  by: string
  note?: string
  json?: true
}

/** A command about one call. */
export function decidingCommand(name: string, description: string): Command {
  return aboutDeployment(
    new Command(name)
      .description(description)
      .argument('<session>', "the session's id")
      .argument('<call>', "the call's id, from `pawl pending`"),
  )
    .addOption(byOption())
    .addOption(jsonOption())
}

/** The person and the note. */
export function saidBy({ by, note }: DecidingOptions): { by: string; note?: string } {
  return { by, ...defined({ note }) }
}

/** Sends the decision to the session and prints the outcome: a line, or an object with `--json`. */
export async function decide(
  options: DecidingOptions,
  sessionId: string,
  work: (session: SessionHandle) => Promise<{ event: string; callId: string; text: string } & Record<string, unknown>>,
): Promise<void> {
  const { text, isPaused, ...told } = await onDeployment(options, async (pawl) => {
    const session = pawl.session(sessionId)
    const decided = await work(session)
    return { ...decided, isPaused: await isPausedNow(session) }
  })
  const later = isPaused
    ? `. The session is paused: this takes effect once it continues (\`${here(SUGGESTIONS.statusOf(sessionId))}\`)`
    : ''
  const paused = isPaused ? { paused: true } : {}
  process.stdout.write(`${options.json ? JSON.stringify({ ...told, ...paused, sessionId }) : printable(text + later)}\n`)
}

/** The decision is made: that the session does not answer this does not make the command fail. */
async function isPausedNow(session: SessionHandle): Promise<boolean> {
  const state = await session.state().catch(() => undefined)
  return state?.paused !== undefined
}

/** The given digest, otherwise that of the call's current arguments. */
export async function digestOf(session: SessionHandle, callId: string, given: string | undefined): Promise<string> {
  if (given !== undefined) return given
  const { current } = await session.state()
  // Without a digest, the session's refusal says what is wrong with the call.
  return current?.calls.find((call) => call.callId === callId)?.digest ?? ''
}
