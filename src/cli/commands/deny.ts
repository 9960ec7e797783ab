// `pawl deny <session> <call>`: denies a call that waits for approval, and tells the model.
import type { Command } from 'commander'
import { decide, type DecidingOptions, decidingCommand, digestOf, saidBy } from '../deciding.ts'
import { defined } from '../../session/defined.ts'

interface DenyOptions extends DecidingOptions {
  digest?: string
  reason?: string
}

/** The command. */
export function denyCommand(): Command {
  return decidingCommand('deny', 'deny a call, which is then not executed')
    .option('--digest <digest>', 'digest of the arguments that you have read (default: the current arguments)')
    .option('--reason <text>', 'the reason, which the model sees')
    .option('--note <text>', 'a note that is only recorded')
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
