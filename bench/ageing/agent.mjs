// What the worker serves: the session's context says how many turns of calls come before the answer.
import { defineAgent, defineTool } from 'pawl'
import { z } from 'zod'

/** Calls of a turn, so that events become many in few turns. */
const CALLS = 5
/** A fifth of a model with a million tokens: the conversation is compacted now and then, as a long one must be. */
const WINDOW = 200_000
const BYTES_PER_TOKEN = 4
const TEXT = 'x'.repeat(200)

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ turn: z.number(), call: z.number() }),
  effect: 'read',
  execute: ({ turn, call }) => `turn ${turn}, call ${call}: ${TEXT}`,
})

const model = {
  name: 'bench',
  contextWindow: WINDOW,
  async generate({ system, messages, turn, purpose }) {
    const usage = { input_tokens: Math.ceil(JSON.stringify(messages).length / BYTES_PER_TOKEN), output_tokens: 1 }
    const answer = (text) => ({ content: [{ type: 'text', text }], stopReason: 'end_turn', usage })
    if (purpose === 'compaction') return answer('Many things were looked at.')
    if (turn > Number(system)) return answer('done')
    const calls = Array.from({ length: CALLS }, (_, call) => ({
      type: 'tool_use',
      id: `toolu_${turn}_${call}`,
      name: 'look',
      input: { turn, call },
    }))
    return { content: calls, stopReason: 'tool_use', usage }
  },
}

export default defineAgent({
  name: 'ageing',
  instructions: (_view, { context }) => String(context.turns),
  model,
  tools: [look],
  compaction: true,
  limits: { maxTurns: 1_000_000 },
})
