// `pawl pause <session>`: lets the step in progress finish, and begins no further one.
import type { Command } from 'commander'
import { pausingCommand } from '../pausing.ts'

/** The command. */
export function pauseCommand(): Command {
  return pausingCommand('pause', {
    description: 'let the step in progress finish, and begin no further step until `pawl unpause`; messages wait',
    ask: (session, by) => session.pause(by),
    event: 'paused',
    already: 'it was already paused: nothing has changed',
  })
}
