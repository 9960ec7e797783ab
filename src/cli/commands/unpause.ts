// `pawl unpause <session>`: lets a paused session continue.
import type { Command } from 'commander'
import { pausingCommand } from '../pausing.ts'

/** The command. */
export function unpauseCommand(): Command {
  return pausingCommand('unpause', {
    description: 'let a paused session continue',
    ask: (session, by) => session.unpause(by),
    event: 'unpaused',
    already: 'it was not paused: nothing has changed',
  })
}
