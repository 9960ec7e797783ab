// The commands of `pawl`, one file each.
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { agentsCommand } from './commands/agents.ts'
import { answerCommand } from './commands/answer.ts'
import { approveCommand } from './commands/approve.ts'
import { chatCommand } from './commands/chat.ts'
import { checkpointCommand } from './commands/checkpoint.ts'
import { checkpointsCommand } from './commands/checkpoints.ts'
import { closeCommand } from './commands/close.ts'
import { crashTestCommand } from './commands/crash-test.ts'
import { denyCommand } from './commands/deny.ts'
import { devCommand } from './commands/dev.ts'
import { doctorCommand } from './commands/doctor.ts'
import { eraseCommand } from './commands/erase.ts'
import { errorsCommand } from './commands/errors.ts'
import { eventsCommand } from './commands/events.ts'
import { failuresCommand } from './commands/failures.ts'
import { forkCommand } from './commands/fork.ts'
import { interruptCommand } from './commands/interrupt.ts'
import { gatesCommand } from './commands/gates.ts'
import { keysCommand } from './commands/keys.ts'
import { memoryCommand } from './commands/memory.ts'
import { messagesCommand } from './commands/messages.ts'
import { migrateCommand } from './commands/migrate.ts'
import { pauseCommand } from './commands/pause.ts'
import { pendingCommand } from './commands/pending.ts'
import { planCommand } from './commands/plan.ts'
import { preflightCommand } from './commands/preflight.ts'
import { pruneCommand } from './commands/prune.ts'
import { raiseCommand } from './commands/raise.ts'
import { rebuildCommand } from './commands/rebuild.ts'
import { recoverCommand } from './commands/recover.ts'
import { regenerateCommand } from './commands/regenerate.ts'
import { resolveCommand } from './commands/resolve.ts'
import { resumeCommand } from './commands/resume.ts'
import { rollbackCommand } from './commands/rollback.ts'
import { runCommand } from './commands/run.ts'
import { sendCommand } from './commands/send.ts'
import { serveCommand } from './commands/serve.ts'
import { sessionsCommand } from './commands/sessions.ts'
import { showCommand } from './commands/show.ts'
import { statusCommand } from './commands/status.ts'
import { toolsCommand } from './commands/tools.ts'
import { unpauseCommand } from './commands/unpause.ts'
import { usageCommand } from './commands/usage.ts'
import { workerCommand } from './commands/worker.ts'
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
    .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'invalid_usage: ')) })
  // Commands that are added ready-made do not inherit settings.
  const commands = [
    devCommand(),
    workerCommand(),
    chatCommand(),
    sendCommand(),
    crashTestCommand(),
    preflightCommand(),
    doctorCommand(),
    migrateCommand(),
    rebuildCommand(),
    pruneCommand(),
    eraseCommand(),
    rollbackCommand(),
    forkCommand(),
    checkpointCommand(),
    closeCommand(),
    interruptCommand(),
    pauseCommand(),
    unpauseCommand(),
    raiseCommand(),
    resumeCommand(),
    runCommand(),
    planCommand(),
    memoryCommand(),
    recoverCommand(),
    regenerateCommand(),
    serveCommand(),
    keysCommand(),
    gatesCommand(),
    statusCommand(),
    agentsCommand(),
    sessionsCommand(),
    showCommand(),
    messagesCommand(),
    checkpointsCommand(),
    errorsCommand(),
    failuresCommand(),
    toolsCommand(),
    pendingCommand(),
    usageCommand(),
    eventsCommand(),
    approveCommand(),
    denyCommand(),
    resolveCommand(),
    answerCommand(),
  ]
  const groups = new Map(GROUPS.flatMap(({ heading, commands: named }) => Object.keys(named).map((name) => [name, heading])))
  const inOrder = [...groups.keys()]
  for (const command of commands.sort((one, other) => inOrder.indexOf(one.name()) - inOrder.indexOf(other.name()))) {
    command.helpGroup(groups.get(command.name()) ?? 'Other commands:').addHelpText('after', examplesOf(command.name()))
    program.addCommand(command.copyInheritedSettings(program))
    for (const inner of command.commands) inner.copyInheritedSettings(program)
  }
  program.hook('preAction', (_, action) => rememberPlace(program, action))
  program.commandsGroup('Help:')
  return program
}

function examplesOf(name: string): string {
  const examples = GROUPS.flatMap(({ commands }) => commands[name] ?? [])
  return examples.length === 0 ? '' : `\nExamples:\n${examples.map((example) => `  ${example}`).join('\n')}`
}
