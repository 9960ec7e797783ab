#!/usr/bin/env node
// The `pawl` command: reads the command line, hands over to one file a command, and says what went wrong.
import { readFileSync } from 'node:fs'
import { Command } from 'commander'
import { askingCommands } from './asking/index.ts'
import { chatCommand } from './chat.ts'
import { crashTestCommand } from './crash-test.ts'
import { devCommand } from './dev.ts'
import { eraseCommand } from './erase.ts'
import { decidingCommands } from './deciding/index.ts'
import { describeError } from './errors.ts'
import { forkCommand } from './fork.ts'
import { migrateCommand } from './migrate.ts'
import { pruneCommand } from './prune.ts'
import { rebuildCommand } from './rebuild.ts'
import { resumeCommand } from './resume.ts'
import { rollbackCommand } from './rollback.ts'
import { workerCommand } from './worker.ts'

/** How long what a finished command left open may hold the process, in milliseconds. */
const EXIT_GRACE_MS = 1_000

const packageJson = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as {
  version: string
  description: string
}

const program = new Command('pawl')
  .description(packageJson.description)
  .version(packageJson.version)
  .showHelpAfterError('(add --help to see what there is)')
  // As all that goes wrong: `code: message`.
  .configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'invalid_usage: ')) })

// Subcommands that are added ready-made inherit no settings by themselves.
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
  ...askingCommands(),
  ...decidingCommands(),
]
for (const command of commands) program.addCommand(command.copyInheritedSettings(program))

// `pawl sessions | head`: the reader has read enough. Commands that serve have a listener of their own, and end in order.
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
