// The agent of `budgets.ts`: a priced model that calls one tool in each turn.
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

const RESULT = 'x'.repeat(1_000)

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ turn: z.number() }),
  effect: 'idempotent',
  execute: () => RESULT,
})

/** The first message says how many turns there are. */
const model = scripted(({ messages, turn }) => {
  if (turn > Number(messages[0]?.content)) return 'done'
  return [{ type: 'tool_use' as const, id: 'toolu_look', name: 'look', input: { turn } }]
})

const spender = defineAgent({
  name: 'spender',
  model: { ...model, price: { input: 1, output: 5 }, maxTokens: 1_000 },
  instructions: '',
  tools: [look],
  limits: { maxTurns: 10_000 },
})

export default defineWorker({ agents: [spender] })
