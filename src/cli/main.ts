#!/usr/bin/env node
// The `pawl` command: parses the command line, runs one file per command, and prints errors.
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { askingCommands } from './commands/asking.ts'
import { chatCommand } from './chat/chat.ts'
import { crashTestCommand } from './commands/crash-test.ts'
import { devCommand } from './commands/dev.ts'
import { eraseCommand } from './commands/erase.ts'
import { decidingCommands } from './commands/deciding.ts'
import { describeError } from './errors.ts'
import { forkCommand } from './commands/fork.ts'
import { migrateCommand } from './commands/migrate.ts'
import { pruneCommand } from './commands/prune.ts'
import { rebuildCommand } from './commands/rebuild.ts'
import { recoverCommand } from './commands/recover.ts'
import { regenerateCommand } from './commands/regenerate.ts'
import { resumeCommand } from './commands/resume.ts'
import { rollbackCommand } from './commands/rollback.ts'
import { workerCommand } from './commands/worker.ts'

/** How long open handles of a finished command may keep the process alive, in milliseconds. */
const EXIT_GRACE_MS = 1_000

const packageJson = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
  description: string
}

const program = new Command('pawl')
  .description(packageJson.description)
  .version(packageJson.version)
  .showHelpAfterError('(add --help for usage)')
  // Like all errors: `code: message`.
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'invalid_usage: ')) })

// Commands that are added ready-made do not inherit settings.
const commands = [
  devCommand(),
  workerCommand(),
  chatCommand(),
  crashTestCommand(),
  migrateCommand(),
  rebuildCommand(),
  pruneCommand(),
  eraseCommand(),
  rollbackCommand(),
  forkCommand(),
  resumeCommand(),
  recoverCommand(),
  regenerateCommand(),
  ...askingCommands(),
  ...decidingCommands(),
]
for (const command of commands) program.addCommand(command.copyInheritedSettings(program))

// `pawl sessions | head`: the reader closes the pipe. Long-running commands have their own listener and shut down in order.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE' && process.stdout.listenerCount('error') === 1) process.exit()
})
process.stderr.on('error', () => {})

program
  .parseAsync()
  .catch((error: unknown) => {
    process.stderr.write(`${describeError(error)}\n`)
    process.exitCode = 1
  })
  .finally(() => setTimeout(() => process.exit(), EXIT_GRACE_MS).unref())
