// pawl's side: an agent with the same model and the same tool. The worker module of the supervised processes.
import { defineAgent, defineTool, defineWorker } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
import { AGENT, askFor, type Effect, fill } from './work.ts'

const tool = defineTool({
  name: 'fill',
  description: 'Answers with filling.',
  input: z.object({ turn: z.number() }),
  effect: (process.env.BENCH_EFFECT ?? 'read') as Effect,
  execute: () => fill(),
})

/** The first message says how many turns the run has. */
const model = scripted(({ messages, turn }) => (turn > Number(messages[0]?.content) ? 'done' : askFor(turn)))

export const agent = defineAgent({ name: AGENT, model, instructions: '', tools: [tool], limits: { maxTurns: 100_000 } })

export default defineWorker({ agents: [agent] })
