// `pawl approve <session> <call>`: approves a call, optionally with other arguments.
import type { Command } from 'commander'
import type { Json } from '../../session/json.ts'
import { jsonOf } from '../options.ts'
import { decide, type DecidingOptions, decidingCommand, digestOf, saidBy } from '../deciding.ts'
import { defined } from '../../session/defined.ts'

interface ApproveOptions extends DecidingOptions {
  digest?: string
  input?: Json
}

/** The command. */
export function approveCommand(): Command {
  return decidingCommand('approve', 'approve a call, which is then executed')
    .option('--digest <digest>', 'digest of the arguments that you have read; others are refused (default: the current arguments)')
    .option('--input <json>', "execute it with these arguments instead of the model's", jsonOf)
    .option('--note <text>', 'the reason; recorded')
    .action(approve)
}

function approve(sessionId: string, callId: string, options: ApproveOptions): Promise<void> {
  const { input } = options
  return decide(options, sessionId, async (session) => {
    const looked = await digestOf(session, callId, options.digest)
    const { digest } = await session.approve(callId, { digest: looked, ...saidBy(options), ...defined({ input }) })
    return {
      event: 'approved',
      callId,
      digest,
      text: `${callId} is approved${input === undefined ? '' : ' with other arguments'} (${digest})`,
    }
  })
}
