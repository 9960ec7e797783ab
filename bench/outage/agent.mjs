// What the benchmark's workers serve: sessions with long histories, and one short answer after the outage.
import { defineAgent, defineTool } from 'pawl'
import { z } from 'zod'

/** Calls of a turn, so that a history becomes long in few turns. */
const CALLS = 5

const step = defineTool({
  name: 'step',
  description: 'Makes history.',
  input: z.object({ turn: z.number(), call: z.number() }),
  effect: 'read',
  quick: false,
  execute: ({ turn, call }) => `turn ${turn}, call ${call}`,
})

const usage = { input_tokens: 1, output_tokens: 1 }

/** The message says how many turns of calls come before the answer. */
const model = {
  name: 'bench',
  async generate({ messages }) {
    const at = messages.findLastIndex(({ role, content }) => role === 'user' && typeof content === 'string')
    const turn = messages.slice(at).filter(({ role }) => role === 'assistant').length
    if (turn === Number(messages[at].content)) return { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage }
    const calls = Array.from({ length: CALLS }, (_, call) => ({
      type: 'tool_use',
      id: `toolu_${turn}_${call}`,
      name: 'step',
      input: { turn, call },
    }))
    return { content: calls, stopReason: 'tool_use', usage }
  },
}

export default defineAgent({ name: 'outage', instructions: '', model, tools: [step], limits: { maxTurns: 10_000 } })
