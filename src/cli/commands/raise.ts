// `pawl raise <session>`: higher limits for a run or a session; one that ran out of its budget continues.
import { Command, InvalidArgumentError, Option } from 'commander'
import type { BudgetScope } from '../../session/spending/spend.ts'
import { defined } from '../../session/defined.ts'
import { linesOfState } from '../chat/lines.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { byOption } from '../operator.ts'
import { jsonOption } from '../options.ts'

interface RaiseCommandOptions extends DeploymentOptions {
  maxUsd?: number
  maxTokens?: number
  scope: BudgetScope
  by: string
  reason?: string
  json?: true
}

/** The command. */
export function raiseCommand(): Command {
  return aboutDeployment(
    new Command('raise')
      .description('raise the budget of a run or a session; a session that ran out of it continues')
      .argument('<session>', "the session's id"),
  )
    .option('--max-usd <usd>', 'the new limit in US dollars: the total, not the amount to add', numberOf)
    .option('--max-tokens <tokens>', 'the new limit in tokens', numberOf)
    .addOption(new Option('--scope <scope>', 'whose limit').choices(['run', 'session']).default('run'))
    .addOption(byOption())
    .option('--reason <text>', 'the reason; recorded')
    .addOption(jsonOption())
    .action(raise)
}

function numberOf(text: string): number {
  const number = text.trim() === '' ? Number.NaN : Number(text)
  if (!Number.isFinite(number)) throw new InvalidArgumentError('Use a number.')
  return number
}

async function raise(session: string, options: RaiseCommandOptions): Promise<void> {
  const { maxUsd, maxTokens: maxTotalTokens, scope, by, reason, json } = options
  if (maxUsd === undefined && maxTotalTokens === undefined) {
    throw new CliError('invalid_usage', 'Pass the new limit: --max-usd, --max-tokens or both.')
  }
  const { already, state } = await onDeployment(options, async (pawl) => {
    const handle = pawl.session(session)
    const answer = await handle.raise({ scope, by, ...defined({ maxUsd, maxTotalTokens, reason }) })
    return { already: answer.already, state: await handle.state() }
  })
  const nothing = already ? ['  the limits were already this high: nothing has changed'] : []
  const lines = json ? [JSON.stringify({ event: 'raised', already, ...state })] : [...linesOfState(state), ...nothing]
  process.stdout.write(`${lines.join('\n')}\n`)
}
