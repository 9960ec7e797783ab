// `pawl approvals rules|revoke`: standing approvals.
import { Command } from 'commander'
import type { Pawl } from '../../client/index.ts'
import type { ApprovalRule } from '../../store/approval-rules.ts'
import { defined } from '../../session/defined.ts'
import { aboutDeployment, type DeploymentOptions, onDeployment } from '../connecting.ts'
import { byOption, jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { type Column, linesOfTable } from '../table.ts'

interface RulesOptions extends DeploymentOptions {
  json?: true
  session?: string
  agent?: string
  tool?: string
  all?: true
}

export function approvalsCommand(): Command {
  return new Command('approvals')
    .description('list and revoke standing approvals, which `pawl approve --remember` gives')
    .addCommand(rulesCommand(), { isDefault: true })
    .addCommand(revokeCommand())
}

const COLUMNS: Column<ApprovalRule>[] = [
  { name: 'rule', of: ({ id }) => id, whole: true },
  { name: 'agent', of: ({ agent }) => agent },
  { name: 'tool', of: ({ tool }) => tool },
  { name: 'for', of: (rule) => (rule.for === 'session' ? rule.sessionId : JSON.stringify(rule.members)) },
  { name: 'matching', of: ({ matching }) => (typeof matching === 'string' ? matching : JSON.stringify(matching)) },
  { name: 'role', of: ({ approvers }) => approvers?.role ?? null },
  { name: 'used', of: ({ used, uses }) => (uses === null ? String(used) : `${used} of ${uses}`) },
  { name: 'until', of: ({ until }) => until },
  { name: 'given', of: ({ givenAt }) => givenAt },
  { name: 'by', of: ({ givenBy }) => givenBy },
  { name: 'revoked', of: ({ revokedAt }) => revokedAt },
]

function rulesCommand(): Command {
  return aboutDeployment(
    new Command('rules')
      .description('list the standing approvals that hold, newest first')
      .option('--session <id>', 'only those given in this session')
      .option('--agent <name>', 'only those for this agent')
      .option('--tool <name>', 'only those for this tool')
      .option('--all', 'also those that were revoked or have ended'),
  )
    .addOption(jsonOption())
    .action(async ({ json, session, agent, tool, all, ...where }: RulesOptions) => {
      const rules = await onDeployment(where, (pawl: Pawl) => pawl.approvals.rules(defined({ session, agent, tool, all })))
      const lines = rules.length > 0 ? linesOfTable(COLUMNS, rules) : ['no standing approvals']
      for (const line of json ? rules.map((rule) => JSON.stringify(rule)) : lines) say(line)
    })
}

function revokeCommand(): Command {
  return aboutDeployment(
    new Command('revoke')
      .description('revoke a standing approval; later calls ask a person again')
      .argument('<rule>', 'its id, as `pawl approvals rules` shows it')
      .option('--reason <text>', 'the reason; recorded for a rule of a session'),
  )
    .addOption(byOption())
    .addOption(jsonOption())
    .action(async (id: string, { json, by, reason, ...where }: RulesOptions & { by: string; reason?: string }) => {
      const rule = await onDeployment(where, (pawl: Pawl) => pawl.approvals.revoke(id, { by, ...defined({ reason }) }))
      say(json ? JSON.stringify({ event: 'rule_revoked', ...rule }) : `Rule ${rule.id} no longer approves calls of ${rule.tool}.`)
    })
}
