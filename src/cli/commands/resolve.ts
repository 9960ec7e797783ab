// `pawl resolve <session> <call>`: resolves the unknown outcome of a call.
import { type Command, InvalidArgumentError } from 'commander'
import type { ResolveRequest } from '../../session/protocol/protocol.ts'
import { isObject, type Json } from '../../session/json.ts'
import { CliError } from '../errors.ts'
import { parsedJson } from '../options.ts'
import { decide, type DecidingOptions, decidingCommand, saidBy } from '../deciding.ts'

interface ResolveOptions extends DecidingOptions {
  happened?: Json
  notHappened?: true
  retry?: true
  skip?: true
}

/** The command. */
export function resolveCommand(): Command {
  return decidingCommand('resolve', 'resolve the unknown outcome of a call')
    .option(
      '--happened <json>',
      'the effect happened; <json> is what the tool would have returned: \'{"id":"re_1"}\', \'"re_1"\' or null',
      resultOf,
    )
    .option('--not-happened', 'the effect did not happen: the call is executed again if its run waits for it')
    .option('--retry', 'the outcome is not known: execute the call again')
    .option('--skip', 'the outcome is not known: tell the model, and do not repeat the call')
    .option('--note <text>', 'the reason; recorded')
    .action(resolve)
}

function resolve(sessionId: string, callId: string, options: ResolveOptions): Promise<void> {
  const { resolution, says } = resolutionOf(options)
  return decide(options, sessionId, async (session) => {
    await session.resolve(callId, resolution, saidBy(options))
    return { event: 'resolved', callId, resolution, text: `${callId} is resolved: ${says}` }
  })
}

/** The result itself. What the client's method expects around it would be recorded as a part of the result. */
function resultOf(text: string): Json {
  const result = parsedJson(text, '{"id":"re_1"}')
  if (isObject(result) && result.happened === true && Object.keys(result).every((name) => name === 'happened' || name === 'result')) {
    const bare = JSON.stringify(result.result ?? null)
    throw new InvalidArgumentError(`Pass only the tool's result, without { happened, result } around it: --happened '${bare}'.`)
  }
  return result
}

function resolutionOf({ happened, notHappened, retry, skip }: ResolveOptions): { resolution: ResolveRequest['resolution']; says: string } {
  const said: { resolution: ResolveRequest['resolution']; says: string }[] = [
    ...(happened === undefined ? [] : [{ resolution: { happened: true as const, result: happened }, says: 'it happened' }]),
    ...(notHappened ? [{ resolution: { happened: false as const }, says: 'it did not happen' }] : []),
    ...(retry ? [{ resolution: 'retry' as const, says: 'it is executed again' }] : []),
    ...(skip ? [{ resolution: 'skip' as const, says: 'it stays unknown' }] : []),
  ]
  const [one] = said
  if (one && said.length === 1) return one
  throw new CliError('invalid_usage', 'Use exactly one of --happened <json>, --not-happened, --retry and --skip.')
}
