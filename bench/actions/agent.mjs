// A model that thinks for as long as the message says, and a tool of each effect.
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

const tool = (name, effect) =>
  defineTool({ name, description: 'Answers.', input: z.object({ turn: z.number() }), effect, execute: async () => 'x'.repeat(1_000) })

/** The first message is the JSON of `{ turns, ms, tool }`. */
const model = scripted(async ({ messages, turn }) => {
  const { turns, ms, tool } = JSON.parse(messages[0].content)
  await sleep(ms)
  return turn > turns ? 'done' : [{ type: 'tool_use', id: `toolu_${turn}`, name: tool, input: { turn } }]
})

const tools = [tool('read', 'read'), tool('idempotent', 'idempotent'), tool('external', 'external')]
export default defineWorker({ agents: [defineAgent({ name: 'bench', instructions: '', model, tools, limits: { maxTurns: 1_000 } })] })
