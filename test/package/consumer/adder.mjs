// A worker module in plain JavaScript: an agent that adds with a tool, and names the Node that runs it.
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

const add = defineTool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  effect: 'idempotent',
  execute: ({ a, b }) => `${a + b} (Node ${process.versions.node})`,
})
const model = scripted(({ messages }) => {
  const results = messages.filter(({ role }) => role === 'user').slice(1)
  return results.length === 0
    ? [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 2, b: 3 } }]
    : `They make ${JSON.stringify(results.at(-1).content)}.`
})

export const adder = defineAgent({ name: 'adder', model, instructions: 'Add.', tools: [add] })
export default defineWorker({ agents: [adder] })
