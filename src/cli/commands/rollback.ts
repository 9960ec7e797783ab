// `pawl rollback <session>`: rolls a session back and lists the effects that are not undone.
import { Command, Option } from 'commander'
import type { RollbackReport } from '../../session/protocol/protocol.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'
import { neededTarget, type TargetOptions, withTarget } from '../target.ts'
import { oneLine, paint } from '../terminal.ts'
import { defined } from '../../session/defined.ts'
import { here } from '../here.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { counted } from '../../session/counted.ts'

interface RollbackCommandOptions extends DeploymentOptions, TargetOptions {
  by: string
  reason?: string
  keys?: 'kept' | 'forgotten'
  json?: true
}

/** The command. */
export function rollbackCommand(): Command {
  const command = new Command('rollback')
    .description('roll a session back to a point of its past; later messages are archived, and a run in progress is interrupted')
    .argument('<session>', "the session's id")
  return aboutDeployment(withTarget(command))
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(
      new Option('--keys <keys>', 'forgotten: you have undone the effects after that point, so they may happen again').choices([
        'kept',
        'forgotten',
      ]),
    )
    .addOption(jsonOption())
    .action(rollback)
}

async function rollback(session: string, options: RollbackCommandOptions): Promise<void> {
  const { by, reason, keys, json } = options
  const target = neededTarget(options)
  const moved = await onDeployment(options, (pawl) => pawl.session(session).rollback({ ...target, by, ...defined({ reason, keys }) }))
  const lines = json ? [JSON.stringify({ event: 'rolled_back', sessionId: session, ...moved })] : linesOfMove(session, moved)
  process.stdout.write(`${lines.join('\n')}\n`)
}

function linesOfMove(session: string, { toSeq, effects, moreEffects }: RollbackReport): string[] {
  const undone = effects.length + moreEffects
  return [
    `session ${session} is back at event ${toSeq}`,
    ...(undone === 0 ? [] : [paint('yellow', `not undone, ${counted(undone, 'effect')}:`)]),
    ...effects.map(({ callId, tool, status, effectId }) =>
      oneLine(`- ${callId} ${tool} ${status}${effectId === undefined ? '' : ` ${effectId}`}`),
    ),
    ...(moreEffects > 0 ? [`- and ${moreEffects} earlier ones: ${here(SUGGESTIONS.listCalls(session))}`] : []),
  ]
}
