#!/usr/bin/env node
// The `pawl` command: parses the command line, runs the command, and prints errors.
import { describeError } from './errors.ts'
import { createProgram } from './program.ts'

/** How long open handles of a finished command may keep the process alive, in milliseconds. */
const EXIT_GRACE_MS = 1_000

// `pawl sessions | head`: the reader closes the pipe. Long-running commands have their own listener and shut down in order.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code === 'EPIPE' && process.stdout.listenerCount('error') === 1) process.exit()
})
process.stderr.on('error', () => {})

createProgram()
  .parseAsync()
  .catch((error: unknown) => {
    process.stderr.write(`${describeError(error)}\n`)
    process.exitCode = 1
  })
  .finally(() => setTimeout(() => process.exit(), EXIT_GRACE_MS).unref())
