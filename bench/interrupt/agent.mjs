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

const usage = { input_tokens: 1, output_tokens: 1 }
const calling = (count) => ({
  content: Array.from({ length: count }, (_, n) => ({ type: 'tool_use', id: `toolu_${n}`, name: 'held', input: {} })),
  stopReason: 'tool_use',
  usage,
})

/** The message says what the benchmark will interrupt. */
const model = {
  name: 'bench',
  async generate({ messages, sessionId }, { signal }) {
    switch (messages.at(-1).content) {
      case 'tool':
        return calling(1)
      case 'reads':
        return calling(READS)
      default:
        return untilStopped({ sessionId, signal })
    }
  },
}

export default defineAgent({ name: 'interrupt', instructions: '', model, tools: [held] })
