// The agent: the scripted model and one tool, whose effect is the variant. An external tool has a `verify`.
import { defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'
import { ask, fill, hasHappened, setting, text } from '../program.mjs'

const tool = defineTool({
  name: 'fill',
  description: 'Answers with filler text.',
  input: z.object({ id: z.string(), turn: z.number(), hold: z.boolean() }),
  effect: setting.variant,
  // After the death of a whole worker, an external call is verified once this time is over.
  timeout: '10s',
  execute: (input) => fill(input),
  ...(setting.variant === 'external' && {
    verify: (input) => (hasHappened(input) ? { happened: true, result: text() } : { happened: false }),
  }),
})

/** The user's message is the JSON of the conversation. */
const model = scripted(({ messages, turn }) => {
  const input = ask(JSON.parse(messages[0].content), turn)
  return input ? [{ type: 'tool_use', id: `toolu_${turn}`, name: 'fill', input }] : 'done'
})

export default defineAgent({ name: 'bench', instructions: '', model, tools: [tool], limits: { maxTurns: 100_000 } })
