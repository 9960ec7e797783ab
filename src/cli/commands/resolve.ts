// `pawl resolve <session> <call>`: says what became of a call whose outcome is unknown.
import type { Command } from 'commander'
import type { ResolveRequest } from '../../session/protocol.ts'
import type { Json } from '../../session/json.ts'
import { CliError } from '../errors.ts'
import { jsonOf } from '../options.ts'
import { decide, type DecidingOptions, decidingCommand, saidBy } from '../deciding.ts'

interface ResolveOptions extends DecidingOptions {
  happened?: Json
  notHappened?: true
  retry?: true
  skip?: true
}

/** The command. */
export function resolveCommand(): Command {
  return decidingCommand('resolve', 'say what became of a call whose outcome is unknown')
    .option('--happened <json>', 'it happened, and this is its result', jsonOf)
    .option('--not-happened', 'it did not happen: it is executed again if its run waits for it')
    .option('--retry', 'nobody knows, and it is executed again')
    .option('--skip', 'nobody knows, and it is left so: the model is told')
    .option('--note <text>', 'why, for the record')
    .action(resolve)
}

function resolve(sessionId: string, callId: string, options: ResolveOptions): Promise<void> {
  const { resolution, says } = resolutionOf(options)
  return decide(options, sessionId, async (session) => {
    await session.resolve(callId, resolution, saidBy(options))
    return { event: 'resolved', callId, resolution, text: `${callId} is resolved: ${says}` }
  })
}

function resolutionOf({ happened, notHappened, retry, skip }: ResolveOptions): { resolution: ResolveRequest['resolution']; says: string } {
  const said: { resolution: ResolveRequest['resolution']; says: string }[] = [
    ...(happened === undefined ? [] : [{ resolution: { happened: true as const, result: happened }, says: 'it happened' }]),
    ...(notHappened ? [{ resolution: { happened: false as const }, says: 'it did not happen' }] : []),
    ...(retry ? [{ resolution: 'retry' as const, says: 'it is executed again' }] : []),
    ...(skip ? [{ resolution: 'skip' as const, says: 'it is left unknown' }] : []),
  ]
  const [one] = said
  if (one && said.length === 1) return one
  throw new CliError('invalid_usage', 'Say one of --happened <json>, --not-happened, --retry and --skip.')
}
