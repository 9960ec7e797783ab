// The commands that query the side store.
import type { Command } from 'commander'
import { checkpointsCommand } from './checkpoints.ts'
import { errorsCommand } from './errors.ts'
import { eventsCommand } from './events.ts'
import { failuresCommand } from './failures.ts'
import { messagesCommand } from './messages.ts'
import { pendingCommand } from './pending.ts'
import { sessionsCommand } from './sessions.ts'
import { showCommand } from './show.ts'
import { statusCommand } from './status.ts'
import { toolsCommand } from './tools.ts'
import { usageCommand } from './usage.ts'

/** All commands that query the side store. */
export function queryCommands(): Command[] {
  return [
    statusCommand(),
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
  ]
}
