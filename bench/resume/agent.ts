// What the benchmark's workers serve: a session of as many short turns as its message says, then one call that is to be killed.
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool } from 'pawl'
import { scripted } from 'pawl/testing'
import { z } from 'zod'

export const AGENT = 'resume'
/** The call that is killed would last for so long. */
const LONG_MS = 60_000

const step = defineTool({
  name: 'step',
  description: 'Makes history.',
  input: z.object({ turn: z.number() }),
  effect: 'read',
  execute: ({ turn }) => `turn ${turn}`,
})

/** Says that it was entered, and by which process; the first attempt stays until it is killed. */
const held = defineTool({
  name: 'held',
  description: 'Is killed the first time.',
  input: z.object({}),
  effect: 'read',
  async execute(_input, { sessionId, attempt, signal }) {
    appendFileSync(process.env.BENCH_ENTERED ?? '', `${JSON.stringify({ sessionId, attempt, pid: process.pid, at: Date.now() })}\n`)
    if (attempt === 1) await sleep(LONG_MS, undefined, { signal })
    return 'held'
  },
})

export default defineAgent({
  name: AGENT,
  instructions: '',
  model: scripted(({ messages, turn }) => {
    const turns = Number(messages[0]?.content)
    if (turn <= turns) return [{ type: 'tool_use', id: 'toolu_1', name: 'step', input: { turn } }]
    return turn === turns + 1 ? [{ type: 'tool_use', id: 'toolu_1', name: 'held', input: {} }] : 'done'
  }),
  tools: [step, held],
  limits: { maxTurns: 1_000 },
})
