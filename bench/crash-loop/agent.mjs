// What the benchmark's workers serve: healthy sessions, and sessions whose tool ends its process at every call.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool } from 'pawl'
import { defineWorker } from 'pawl/worker'
import { z } from 'zod'

const MODEL_MS = 50
const usage = { input_tokens: 1, output_tokens: 1 }
const calling = (name) => ({ content: [{ type: 'tool_use', id: 'toolu_1', name, input: {} }], stopReason: 'tool_use', usage })
const done = { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage }

const put = defineTool({
  name: 'put',
  description: 'Writes something.',
  input: z.object({}),
  effect: 'idempotent',
  execute: () => 'written',
})
const explode = defineTool({
  name: 'explode',
  description: 'Ends its process.',
  input: z.object({}),
  effect: 'idempotent',
  execute: () => process.exit(1),
})

/** Calls the tool once for each message, or again and again. */
const modelThat = (tool, isDone) => ({
  name: 'bench',
  async generate({ messages }) {
    await sleep(MODEL_MS)
    return isDone(messages.at(-1)) ? done : calling(tool)
  },
})
const isResult = ({ content }) => Array.isArray(content) && content.some(({ type }) => type === 'tool_result')

export default defineWorker({
  agents: [
    defineAgent({ name: 'healthy', instructions: '', model: modelThat('put', isResult), tools: [put] }),
    defineAgent({
      name: 'looping',
      instructions: '',
      model: modelThat('explode', () => false),
      tools: [explode],
      limits: { maxTurns: 1_000 },
    }),
  ],
})
