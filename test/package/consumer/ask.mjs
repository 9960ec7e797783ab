// A backend in plain JavaScript: its own worker, one question, one answer. Prints the outcome as a line of JSON.
import { defineAgent, defineTool } from 'pawl'
import { Pawl } from 'pawl/client'
import { scripted } from 'pawl/testing'
import { createWorker } from 'pawl/worker'
import { z } from 'zod'

const add = defineTool({
  name: 'add',
  description: 'Adds two numbers.',
  input: z.object({ a: z.number(), b: z.number() }),
  effect: 'idempotent',
  execute: ({ a, b }) => `${a + b}`,
})
const model = scripted(({ messages }) => {
  const results = messages.filter(({ role }) => role === 'user').slice(1)
  return results.length === 0
    ? [{ type: 'tool_use', id: 'toolu_1', name: 'add', input: { a: 2, b: 3 } }]
    : `They make ${JSON.stringify(results.at(-1).content)}.`
})
const agent = defineAgent({ name: 'adder', model, instructions: 'Add.', tools: [add] })

const taskQueue = process.env.TASK_QUEUE
const worker = await createWorker({ agents: [agent], taskQueue })
const running = worker.run()
const pawl = await Pawl.connect({ taskQueue })
const run = await pawl.session(undefined, { agent: 'adder' }).send('What are two and three?')
const { text } = await run.result({ timeout: 60_000 })
await pawl.close()
await worker.shutdown()
await running
console.log(JSON.stringify({ node: process.version, text }))
