// `pawl answer <session> <call> <json>`: answers a call of a client tool.
import type { Command } from 'commander'
import { InvalidArgumentError } from 'commander'
import type { Json } from '../../session/json.ts'
import { jsonOf } from '../options.ts'
import { decide, type DecidingOptions, decidingCommand } from '../deciding.ts'

/** The command. */
export function answerCommand(): Command {
  return decidingCommand('answer', 'answer a call of a client tool').argument('<json>', 'the answer', answerOf).action(answer)
}

function answerOf(text: string): Json {
  try {
    return jsonOf(text)
  } catch {
    throw new InvalidArgumentError('Use JSON; a string needs its own quotes, as in \'"yes"\'.')
  }
}

function answer(sessionId: string, callId: string, result: Json, options: DecidingOptions): Promise<void> {
  const { by } = options
  return decide(options, sessionId, async (session) => {
    await session.answer(callId, result, { by })
    return { event: 'answered', callId, text: `${callId} is answered` }
  })
}
