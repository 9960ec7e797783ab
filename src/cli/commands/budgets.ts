// `pawl budgets list|set|remove`: budgets that sessions share.
import { Command, InvalidArgumentError, Option } from 'commander'
import type { SharedBudgetOptions, SharedBudgets } from '../../client/admin/shared-budgets.ts'
import type { SharedBudget } from '../../store/shared-budgets.ts'
import { defined } from '../../session/defined.ts'
import { aboutDeployment, type DeploymentOptions, onStoreAlone } from '../connecting.ts'
import { CliError } from '../errors.ts'
import { byOption, jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'

interface BudgetsOptions extends DeploymentOptions {
  json?: true
}

interface SetOptions extends BudgetsOptions, SharedBudgetOptions {
  by: string
}

export function budgetsCommand(): Command {
  return new Command('budgets')
    .description('list, set and remove budgets that sessions share: of a tag or an agent, for each day or month')
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(setCommand())
    .addCommand(removeCommand())
}

const COLUMNS: Column<SharedBudget>[] = [
  { name: 'budget', of: ({ id }) => id, whole: true },
  { name: 'limit', of: ({ maxUsd }) => `$${maxUsd}` },
  { name: 'spent', of: ({ spentUsd }) => `$${spentUsd.toFixed(4)}` },
  { name: 'reserved', of: ({ reservedUsd }) => `$${reservedUsd.toFixed(4)}` },
  { name: 'until', of: ({ until }) => until },
  { name: 'in', of: ({ timeZone }) => timeZone },
  { name: 'warned', of: ({ warnedAt }) => warnedAt },
]

function listCommand(): Command {
  return aboutDeployment(new Command('list').description('list them, with what is spent in the current period'))
    .addOption(jsonOption())
    .action(async ({ json, ...where }: BudgetsOptions) => {
      const budgets = await onBudgets(where, (all) => all.list())
      const lines = budgets.length > 0 ? linesOfTable(COLUMNS, budgets) : ['no shared budgets']
      for (const line of json ? budgets.map((budget) => JSON.stringify(budget)) : lines) say(line)
    })
}

function setCommand(): Command {
  return aboutDeployment(
    new Command('set')
      .description('set a budget; replaces the earlier one of the same tag or agent and period')
      .option('--tag <tag>', 'of sessions with this tag, such as tenant:acme')
      .option('--agent <name>', 'of sessions of this agent')
      .addOption(new Option('--max-usd <usd>', 'US dollars in each period (required)').argParser(usdOf).makeOptionMandatory())
      .addOption(new Option('--per <period>', 'the period').choices(['day', 'month']).default('day'))
      .option('--time-zone <zone>', 'in which a day begins (default: UTC)')
      .addOption(new Option('--on-outage <what>', 'while Postgres is unavailable (default: continue)').choices(['continue', 'stop'])),
  )
    .addOption(byOption())
    .addOption(jsonOption())
    .action(async ({ json, tag, agent, maxUsd, per, timeZone, onOutage, by, ...where }: SetOptions) => {
      if ((tag === undefined) === (agent === undefined)) throw new CliError('invalid_usage', 'Use either --tag or --agent.')
      const budget = await onBudgets(where, (all) => all.set({ maxUsd, per, by, ...defined({ tag, agent, timeZone, onOutage }) }))
      say(
        json ? JSON.stringify({ event: 'budget_set', ...budget }) : `${budget.id}: $${budget.maxUsd}, $${budget.spentUsd.toFixed(4)} spent`,
      )
    })
}

function removeCommand(): Command {
  return aboutDeployment(new Command('remove').description('remove a budget').argument('<budget>', 'its id, as `pawl budgets` shows it'))
    .addOption(jsonOption())
    .action(async (id: string, { json, ...where }: BudgetsOptions) => {
      const removed = await onBudgets(where, (all) => all.remove(id))
      if (json) return say(JSON.stringify({ event: 'budget_removed', id, removed }))
      say(removed ? `${id} is removed.` : `There is no budget ${id}.`)
    })
}

function usdOf(text: string): number {
  const usd = text.trim() === '' ? Number.NaN : Number(text)
  if (!Number.isFinite(usd)) throw new InvalidArgumentError('Use a number of US dollars.')
  return usd
}

async function onBudgets<T>(where: DeploymentOptions, work: (opened: SharedBudgets) => Promise<T>): Promise<T> {
  const { openSharedBudgets } = await import('../../client/admin/shared-budgets.ts')
  return onStoreAlone(where, openSharedBudgets, work)
}
