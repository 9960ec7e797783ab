// `pawl deny <session> <call>`: denies a call that waits for approval; the model is told.
import type { Command } from 'commander'
import { decide, type DecidingOptions, decidingCommand, digestOf, saidBy } from '../deciding.ts'
import { defined } from '../../session/defined.ts'

interface DenyOptions extends DecidingOptions {
  digest?: string
  reason?: string
}

/** The command. */
export function denyCommand(): Command {
  return decidingCommand('deny', 'deny a call: it is not executed')
    .option('--digest <digest>', 'of the arguments that were looked at (default: what it has now)')
    .option('--reason <text>', 'what the model is told')
    .option('--note <text>', 'why, for the record alone')
    .action(deny)
}

function deny(sessionId: string, callId: string, options: DenyOptions): Promise<void> {
  const { reason } = options
  return decide(options, sessionId, async (session) => {
    const digest = await digestOf(session, callId, options.digest)
    await session.deny(callId, { digest, ...saidBy(options), ...defined({ reason }) })
    return { event: 'denied', callId, digest, text: `${callId} is denied` }
  })
}
