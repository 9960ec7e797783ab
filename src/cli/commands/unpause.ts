// `pawl unpause <session>`: lets a paused session continue.
import type { Command } from 'commander'
import type { SessionHandle } from '../../client/types.ts'
import { SUGGESTIONS } from '../../session/suggestions.ts'
import { CliError } from '../errors.ts'
import { pausingCommand } from '../pausing.ts'

/** The command. */
export function unpauseCommand(): Command {
  return pausingCommand('unpause', {
    description: 'let a paused session continue',
    async ask(session, by) {
      await checkBudget(session)
      return session.unpause(by)
    },
    event: 'unpaused',
    already: 'it was not paused: nothing has changed',
  })
}

/** @throws CliError `budget_assumed` if pawl would pause the session again before its next model call. */
async function checkBudget(session: SessionHandle): Promise<void> {
  const { paused } = await session.state()
  if (!paused?.raise?.length) return
  const raises = paused.raise.map((one) => `\`${SUGGESTIONS.raise({ session: session.id, ...one })}\``)
  throw new CliError(
    'budget_assumed',
    `Session "${session.id}" is paused because too little of its budget is left. Without a higher limit, it would be paused again at once. Raise the limit, which also unpauses it: ${raises.join(' and ')}.`,
  )
}
