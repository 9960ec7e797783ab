// `pawl close <session>`: closes a session once its run has ended and everything is stored.
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { SessionHandle } from '../../client/index.ts'
import type { SessionStatus } from '../../session/events.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'
import { here } from '../here.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

/** A session without a run closes within moments; for one with a run the command does not wait. */
const CLOSES_WITHIN_MS = 5_000
const LOOK_EVERY_MS = 100

interface CloseCommandOptions extends DeploymentOptions {
  by: string
  json?: true
}

/** The command. */
export function closeCommand(): Command {
  return aboutDeployment(
    new Command('close')
      .description('close a session once its run has ended; the next message opens it again')
      .argument('<session>', "the session's id"),
  )
    .addOption(byOption())
    .addOption(jsonOption())
    .action(close)
}

async function close(session: string, options: CloseCommandOptions): Promise<void> {
  const { by, json } = options
  const status = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    await handle.close({ by })
    return statusAfter(handle)
  })
  const text =
    status === 'closed'
      ? `session ${session} is closed`
      : `session ${session} is ${status} and closes once its run has ended: \`${here(SUGGESTIONS.interrupt(session))}\` ends the run`
  const event = status === 'closed' ? 'closed' : 'closing'
  process.stdout.write(`${json ? JSON.stringify({ event, sessionId: session, status }) : text}\n`)
}

async function statusAfter(handle: SessionHandle): Promise<SessionStatus> {
  for (const until = Date.now() + CLOSES_WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    const { status } = await handle.state()
    if (status === 'closed' || status === 'running' || status === 'waiting' || Date.now() > until) return status
  }
}
