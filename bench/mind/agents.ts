// The agents of `mind.ts`: the same model and tool, without and with slices, hooks and a plan.
import { defineAgent, defineHook, defineSlice, defineTool, defineWorker, sections, type ToolUseBlock } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

const SLICES = 10
const STEPS = 100
const RESULT = 'x'.repeat(1_000)

const look = defineTool({
  name: 'look',
  description: 'Looks.',
  input: z.object({ turn: z.number() }),
  effect: 'idempotent',
  execute: () => RESULT,
})

const call = (name: string, input: object): ToolUseBlock => ({ type: 'tool_use', id: `toolu_${name}`, name, input: input as never })

/** The first message says how many turns there are. Both agents have one call in each; the first one may set up the plan. */
const modelOf = (first: (turn: number) => ToolUseBlock) =>
  scripted(({ messages, turn }) => {
    if (turn > Number(messages[0]?.content)) return 'done'
    return [turn === 1 ? first(turn) : call('look', { turn })]
  })

const slices = Array.from({ length: SLICES }, (_, index) =>
  defineSlice({
    name: `looks_${index}`,
    version: 1,
    schema: z.object({ count: z.number(), bytes: z.number() }),
    initial: { count: 0, bytes: 0 },
    on: { tool_completed: ({ count, bytes }, { value }) => ({ count: count + 1, bytes: bytes + JSON.stringify(value).length }) },
  }),
)

const limits = { maxTurns: 10_000 }

const plain = defineAgent({ name: 'plain', model: modelOf((turn) => call('look', { turn })), instructions: '', tools: [look], limits })

const mind = defineAgent({
  name: 'mind',
  model: modelOf(() => {
    const steps = Array.from({ length: STEPS }, (_, index) => ({ id: `s${index}`, title: `The step with the number ${index}` }))
    return call('plan_setup', { objective: 'To look', steps })
  }),
  instructions: '',
  tools: [look],
  plan: { guidance: true },
  sections: [sections.plan, sections.progress],
  slices,
  hooks: [
    defineHook({ on: 'turnStart', run: () => undefined }),
    defineHook({ on: 'preToolUse', run: () => undefined }),
    defineHook({ on: 'postToolUse', run: () => undefined }),
  ],
  limits,
})

export default defineWorker({ agents: [plain, mind] })
