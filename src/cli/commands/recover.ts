// `pawl recover <session>`: recovers a session from its error; with filters instead of a session, all sessions that they find.
import { Command, Option } from 'commander'
import { byOption, jsonOption, severalOf } from '../options.ts'
import { linesOfState } from '../chat/lines.ts'
import { aboutDeployment, onDeployment } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { failIfStopped, stateSoon } from '../outcome.ts'
import type { RecoverOptions, SessionHandle } from '../../client/types.ts'
import { defined } from '../../session/defined.ts'
import { sayAs } from '../queries.ts'
import { RECOVERIES } from '../../session/recovery/recovery.ts'
import { bulkOptionsIn, type RecoverCommandOptions, recoverInBulk, withBulk } from '../recover-in-bulk.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'

export function recoverCommand(): Command {
  const command = aboutDeployment(
    new Command('recover')
      .description('recover a failed session, or all failed sessions that a filter finds; completed effects are not repeated')
      .argument('[session]', "the session's id; without it, the options below say which sessions"),
  )
    .addOption(new Option('--strategy <strategy>', 'how to recover (default: as `pawl status <session>` suggests)').choices(RECOVERIES))
    .option('--keep <calls...>', 'selective: calls of the failed turn whose results stay', callsOf)
    .option('--skip <calls...>', 'selective: calls that the model is told were skipped', callsOf)
    .option('--redo <calls...>', 'selective: calls that are made again', callsOf)
    .option('--force', 'selective: also repeat calls whose effects have completed; recorded')
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
  return withBulk(command).action(recover)
}

/** Separated by spaces, or by commas as the values of other options are. */
function callsOf(text: string, before: string[] = []): string[] {
  return [...before, ...severalOf(text)]
}

async function recover(session: string | undefined, options: RecoverCommandOptions): Promise<void> {
  if (session === undefined) return recoverInBulk(options)
  const [bulk] = bulkOptionsIn(options)
  if (bulk !== undefined) {
    throw new CliError(
      'invalid_usage',
      `${bulk} applies only to recovery in bulk, but the command names a session. Omit one of them. \`${SUGGESTIONS.statusOf(session)}\` says what is possible.`,
    )
  }
  const { strategy, keep, skip, redo, force, by, reason } = options
  const asked = { ...defined({ strategy, keep, skip, redo, force, reason }), by }
  const { event, state } = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    const event = await recoverOrResume(handle, asked)
    return { event, state: await stateSoon(handle) }
  })
  const again = failIfStopped(state) ? ['  it was recovered, but its run failed again'] : []
  sayAs(options, { event, ...state }, () => [...linesOfState(state), ...again])
}

/** A run whose workflow has ended is not in error: it only needs to be resumed. */
async function recoverOrResume(session: SessionHandle, asked: RecoverOptions): Promise<'recovered' | 'resumed'> {
  const { status, waitsFor } = await session.status()
  const hasEnded = status !== 'error' && waitsFor.some(({ to }) => to === 'resume')
  if (!hasEnded) {
    await session.recover(asked)
    return 'recovered'
  }
  const { strategy = 'continue_run', keep, skip, redo } = asked
  if (strategy !== 'continue_run' || keep || skip || redo) {
    throw new CliError(
      'workflow_ended',
      `Session "${session.id}" is ${status}, not in error: its workflow has ended during the run. \`${SUGGESTIONS.resume(session.id)}\` reopens it and continues the run.`,
    )
  }
  await session.resume()
  return 'resumed'
}
