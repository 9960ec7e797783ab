// `pawl interrupt <session>`: stops the run in progress.
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'commander'
import type { SessionHandle } from '../../client/types.ts'
import { isRunInProgress } from '../../session/decide.ts'
import { defined } from '../../session/defined.ts'
import type { SessionView } from '../../session/watching/view.ts'
import { linesOfState } from '../chat/lines.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'

/** Calls that listen to their signals end within a second; the command does not wait for others. */
const ENDS_WITHIN_MS = 5_000
const LOOK_EVERY_MS = 100

interface InterruptCommandOptions extends DeploymentOptions {
  by: string
  reason?: string
  json?: true
}

/** The command. */
export function interruptCommand(): Command {
  return aboutDeployment(
    new Command('interrupt')
      .description('stop the run in progress; messages that it has not seen open the next one')
      .argument('<session>', "the session's id"),
  )
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
    .action(interrupt)
}

async function interrupt(session: string, options: InterruptCommandOptions): Promise<void> {
  const { by, reason, json } = options
  const { state, isOver } = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    await handle.interrupt({ by, ...defined({ reason }) })
    return stateAfter(handle)
  })
  const event = isOver ? 'interrupted' : 'interrupting'
  const lines = json ? [JSON.stringify({ event, ...state })] : linesOfState(state)
  if (!json && !isOver) lines.push('  the run ends once its calls have ended: some of them do not listen to their signals')
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** The state once the run is over, or after a while. */
async function stateAfter(handle: SessionHandle): Promise<{ state: SessionView; isOver: boolean }> {
  let run: number | undefined
  for (const until = Date.now() + ENDS_WITHIN_MS; ; await sleep(LOOK_EVERY_MS)) {
    const state = await handle.state()
    run ??= state.current?.run
    const isOver = !isRunInProgress(state) || state.current?.run !== run
    if (isOver || Date.now() > until) return { state, isOver }
  }
}
