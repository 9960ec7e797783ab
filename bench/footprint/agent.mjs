// What the worker serves: a run of one short turn.
import { defineAgent, defineTool } from 'pawl'
import { z } from 'zod'

const look = defineTool({ name: 'look', description: 'Looks.', input: z.object({}), effect: 'read', execute: () => 'seen' })
const usage = { input_tokens: 1, output_tokens: 1 }

const model = {
  name: 'bench',
  async generate({ messages }) {
    const isSeen = messages.at(-1).content.some?.(({ type }) => type === 'tool_result')
    return isSeen
      ? { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage }
      : { content: [{ type: 'tool_use', id: 'a', name: 'look', input: {} }], stopReason: 'tool_use', usage }
  },
}

export default defineAgent({ name: 'footprint', instructions: '', model, tools: [look] })
