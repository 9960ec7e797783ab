// What the benchmark's workers serve: sessions of as many short turns as a message says, then a call that the benchmark kills or lets end.
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { defineAgent, defineTool } from 'pawl'
import { z } from 'zod'

/** How long a call would last without its kill; a call that is not killed ends soon. */
const LONG_MS = 60_000
const SHORT_MS = 50

/** Tells the benchmark which process has begun what. */
function tell(sessionId, what, attempt) {
  appendFileSync(process.env.BENCH_ENTERED, `${JSON.stringify({ sessionId, what, attempt, pid: process.pid, at: Date.now() })}\n`)
}

const step = defineTool({
  name: 'step',
  description: 'Makes history.',
  input: z.object({ turn: z.number() }),
  effect: 'read',
  quick: false,
  execute: ({ turn }) => `turn ${turn}`,
})

const held = defineTool({
  name: 'held',
  description: 'The first attempt lasts until its process is killed, unless it is to be outlived.',
  input: z.object({ name: z.string(), ms: z.number() }),
  effect: 'read',
  quick: false,
  async execute({ name, ms }, { sessionId, attempt, signal }) {
    tell(sessionId, name, attempt)
    if (attempt === 1) await sleep(ms, undefined, { signal })
    return 'held'
  },
})

/** The run's message, and how many turns the run has had so far. */
function runOf(messages) {
  const at = messages.findLastIndex(({ role, content }) => role === 'user' && typeof content === 'string')
  return { ...JSON.parse(messages[at].content), had: messages.slice(at).filter(({ role }) => role === 'assistant').length }
}

const usage = { input_tokens: 1, output_tokens: 1 }
const calling = (name, input) => ({ content: [{ type: 'tool_use', id: 'toolu_1', name, input }], stopReason: 'tool_use', usage })

/** A run has `turns` short turns; then what `end` says happens. */
const model = {
  name: 'bench',
  async generate({ messages, sessionId }, { attempt, signal }) {
    const { name, turns, end, had } = runOf(messages)
    if (had < turns) return calling('step', { turn: had })
    if (end === 'tool' && had === turns) return calling('held', { name, ms: LONG_MS })
    if (end === 'outlived' && had === turns) return calling('held', { name, ms: SHORT_MS })
    if (end === 'outlived' && had === turns + 1) return calling('held', { name: `${name} after`, ms: 0 })
    if (end === 'begun') {
      tell(sessionId, name, attempt)
      return { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage }
    }
    if (end === 'model') {
      tell(sessionId, name, attempt)
      if (attempt === 1) await sleep(LONG_MS, undefined, { signal })
    }
    return { content: [{ type: 'text', text: 'done' }], stopReason: 'end_turn', usage }
  },
}

export default defineAgent({ name: 'resume', instructions: '', model, tools: [step, held], limits: { maxTurns: 10_000 } })
