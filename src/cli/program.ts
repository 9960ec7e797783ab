// The commands of `pawl`.
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { agentsCommand } from './commands/agents.ts'
import { chatCommand } from './commands/chat.ts'
import { CONTINUING } from './commands/continuing.ts'
import { crashTestCommand } from './commands/crash-test.ts'
import { DECIDING } from './commands/deciding.ts'
import { devCommand } from './commands/dev.ts'
import { doctorCommand } from './commands/doctor.ts'
import { eraseCommand } from './commands/erase.ts'
import { eventsCommand } from './commands/events.ts'
import { failuresCommand } from './commands/failures.ts'
import { approvalsCommand } from './commands/approvals.ts'
import { budgetsCommand } from './commands/budgets.ts'
import { gatesCommand } from './commands/gates.ts'
import { GOING_BACK } from './commands/going-back.ts'
import { keysCommand } from './commands/keys.ts'
import { schedulesCommand } from './commands/schedules.ts'
import { webhooksCommand } from './commands/webhooks.ts'
import { LISTS } from './commands/lists.ts'
import { mcpCommand } from './commands/mcp.ts'
import { memoryCommand } from './commands/memory.ts'
import { migrateCommand } from './commands/migrate.ts'
import { planCommand } from './commands/plan.ts'
import { preflightCommand } from './commands/preflight.ts'
import { pruneCommand } from './commands/prune.ts'
import { rebuildCommand } from './commands/rebuild.ts'
import { recoverCommand } from './commands/recover.ts'
import { runCommand } from './commands/run.ts'
import { serveCommand } from './commands/serve.ts'
import { showCommand } from './commands/show.ts'
import { statusCommand } from './commands/status.ts'
import { TALKING } from './commands/talking.ts'
import { usageCommand } from './commands/usage.ts'
import { workerCommand } from './commands/worker.ts'
import { SUGGESTIONS } from '../session/suggestions.ts'
import { acceptDashedWords } from './dashed-words.ts'
import { GROUPS } from './groups.ts'
import { rememberPlace } from './here.ts'

const packageJson = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
  description: string
}

/** The program with all commands. */
export function createProgram(): Command {
  const program = new Command('pawl')
    .description(packageJson.description)
    .version(packageJson.version)
    .addHelpText(
      'after',
      '\nExamples:\n  pawl dev agents.ts       in one terminal\n  pawl chat support        in another\n  pawl status              which sessions need a person\n  pawl <command> --help    options and examples of a command',
    )
    .showHelpAfterError('(add --help for usage)')
    // Like all errors: `code: message`.
    .configureOutput({ outputError: (text, write) => write(withHint(text.replace(/^error: /, 'invalid_usage: '))) })
  // Commands that are added ready-made do not inherit settings.
  const commands = [
    ...[...TALKING, ...DECIDING, ...LISTS, ...CONTINUING, ...GOING_BACK].map((command) => command()),
    devCommand(),
    workerCommand(),
    chatCommand(),
    crashTestCommand(),
    preflightCommand(),
    mcpCommand(),
    doctorCommand(),
    migrateCommand(),
    rebuildCommand(),
    pruneCommand(),
    eraseCommand(),
    runCommand(),
    planCommand(),
    memoryCommand(),
    recoverCommand(),
    serveCommand(),
    keysCommand(),
    schedulesCommand(),
    webhooksCommand(),
    gatesCommand(),
    budgetsCommand(),
    approvalsCommand(),
    statusCommand(),
    agentsCommand(),
    showCommand(),
    failuresCommand(),
    usageCommand(),
    eventsCommand(),
  ]
  const groups = new Map(GROUPS.flatMap(({ heading, commands: named }) => Object.keys(named).map((name) => [name, heading])))
  const inOrder = [...groups.keys()]
  for (const command of commands.sort((one, other) => inOrder.indexOf(one.name()) - inOrder.indexOf(other.name()))) {
    command.helpGroup(groups.get(command.name()) ?? 'Other commands:').addHelpText('after', examplesOf(command.name()))
    program.addCommand(command.copyInheritedSettings(program))
    for (const inner of command.commands) inner.copyInheritedSettings(program)
  }
  for (const each of [program, ...commands, ...commands.flatMap((command) => command.commands)]) acceptDashedWords(each)
  program.hook('preAction', (_, action) => rememberPlace(program, action))
  program.commandsGroup('Help:')
  return program
}

/** The command whose name resembles this one starts a worker. */
function withHint(text: string): string {
  return text.replace(/^.*unknown command 'workers'$/m, (line) => `${line}\n(\`${SUGGESTIONS.listWorkers()}\` lists the workers)`)
}

function examplesOf(name: string): string {
  const examples = GROUPS.flatMap(({ commands }) => commands[name] ?? [])
  return examples.length === 0 ? '' : `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`
}
