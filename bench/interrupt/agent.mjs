// What the benchmark's workers serve: model calls and tool calls that last until their signal aborts, and record when it does.
import { appendFileSync } from 'node:fs'
import { defineAgent, defineTool } from 'pawl'
import { z } from 'zod'

/** Reads of a turn that run in parallel. */
const READS = 5

function tell(sessionId, what) {
  appendFileSync(process.env.BENCH_TOLD, `${JSON.stringify({ sessionId, what, at: Date.now() })}\n`)
}

async function untilStopped({ sessionId, signal }) {
  tell(sessionId, 'begun')
  await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
  tell(sessionId, 'stopped')
  throw signal.reason
}

const held = defineTool({
  name: 'held',
  description: 'Lasts until it is stopped.',
  input: z.object({}),
  effect: 'read',
  quick: false,
  timeout: '10m',
  execute: (_input, ctx) => untilStopped(ctx),
})

const glance = defineTool({
  name: 'glance',
  description: 'Counts as quick, so that it rides on the model call, and lasts until it is stopped.',
  input: z.object({}),
  effect: 'read',
  execute: (_input, ctx) => untilStopped(ctx),
})

const usage = { input_tokens: 1, output_tokens: 1 }
const calling = (count, name = 'held') => ({
  content: Array.from({ length: count }, (_, n) => ({ type: 'tool_use', id: `toolu_${n}`, name, input: {} })),
  stopReason: 'tool_use',
  usage,
})

/** The message says what the benchmark will interrupt. */
const model = {
  name: 'bench',
  async generate({ messages, sessionId }, { signal }) {
    const said = messages.at(-1).content
    switch (said) {
      case 'tool':
        return calling(1)
      case 'reads':
        return calling(READS)
      case 'hello':
        return { content: [{ type: 'text', text: 'hello' }], stopReason: 'end_turn', usage }
      case 'riding':
        return calling(1, 'glance')
      default:
        return untilStopped({ sessionId, signal })
    }
  },
}

export default defineAgent({ name: 'interrupt', instructions: '', model, tools: [held, glance] })
