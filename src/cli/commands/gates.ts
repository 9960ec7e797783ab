// `pawl gates`: the accounts whose calls wait because their provider refused one, and `pawl gates open`.
import { Command } from 'commander'
import type { RateGateAdmin } from '../../client/admin/gates.ts'
import { InvalidOptionError } from '../../options/errors.ts'
import { durationText } from '../../session/duration.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { aboutDeployment, type DeploymentOptions, onStoreAlone } from '../connecting.ts'
import { here } from '../here.ts'
import { byOption, jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'
import { paint } from '../terminal.ts'

interface GatesOptions extends DeploymentOptions {
  json?: true
}

type Gate = Awaited<ReturnType<RateGateAdmin['list']>>[number]

export function gatesCommand(): Command {
  return new Command('gates')
    .description('list accounts whose calls wait because their provider refused one and asked to wait')
    .addCommand(listCommand(), { isDefault: true })
    .addCommand(openCommand())
}

const COLUMNS: Column<Gate>[] = [
  { name: 'account', of: ({ key }) => key, whole: true },
  { name: 'opens in', of: ({ forMs }) => durationText(forMs) },
  { name: 'refused', of: ({ refusedAgoMs }) => `${durationText(refusedAgoMs)} ago` },
  { name: 'by', of: ({ by }) => by },
]

function listCommand(): Command {
  return aboutDeployment(new Command('list').description('list the gates that are shut'))
    .addOption(jsonOption())
    .action(async ({ json, ...where }: GatesOptions) => {
      const gates = await onGates(where, (all) => all.list())
      for (const line of json ? gates.map((gate) => JSON.stringify(gate)) : linesOf(gates)) say(line)
    })
}

function linesOf(gates: readonly Gate[]): string[] {
  const [first] = gates
  if (!first) return ['no gate is shut: no provider has asked to wait']
  const open = here(SUGGESTIONS.openGate(first.key))
  return [...linesOfTable(COLUMNS, gates), '', paint('dim', `If the provider accepts calls again: \`${open}\``)]
}

function openCommand(): Command {
  return aboutDeployment(
    new Command('open')
      .description('let calls to an account through now, slowly at first; they start within a minute')
      .argument('<account>', 'as `pawl gates` shows it'),
  )
    .addOption(byOption())
    .addOption(jsonOption())
    .action(async (account: string, { by, json, ...where }: GatesOptions & { by: string }) => {
      const wasShut = await onGates(where, (gates) => gates.open(account, by))
      if (!wasShut)
        throw new InvalidOptionError(
          `No gate of the account ${JSON.stringify(account)} is shut. List them with \`${here(SUGGESTIONS.listGates())}\`.`,
        )
      say(json ? JSON.stringify({ event: 'gate_opened', account, by }) : `The gate of ${account} is open.`)
    })
}

async function onGates<T>(where: DeploymentOptions, work: (opened: RateGateAdmin) => Promise<T>): Promise<T> {
  const { openGates } = await import('../../client/admin/gates.ts')
  return onStoreAlone(where, openGates, work)
}
