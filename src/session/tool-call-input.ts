// What a tool call is given, whether it runs as an activity or as part of a model call.
import type { ResolvedCall } from './call-facts.ts'
import { defined } from './defined.ts'
import type { RunState, SessionState } from './state.ts'

/** Makes the part of a call's input that follows from the session, its run and the call. `input`: the raw arguments. */
export function toolCallInput(
  { agent, context, tags, keysOf }: Pick<SessionState, 'agent' | 'context' | 'tags' | 'keysOf'>,
  { run, intent, stretch, metadata }: Pick<RunState, 'run' | 'intent' | 'metadata'> & { stretch?: number | undefined },
  call: ResolvedCall & { turn: number },
) {
  const { index, tool, effect, schemaDigest, key, generation } = call.resolution
  return {
    agent,
    run,
    intent,
    turn: call.turn,
    input: call.input,
    resolution: { index, tool, effect, schemaDigest, ...defined({ key, generation }) },
    ...defined({ keysOf, stretch }),
    context,
    metadata,
    tags,
  }
}
