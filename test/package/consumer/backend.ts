// A backend in TypeScript, for its types: what is inferred, and what must not compile.
import { defineAgent, defineTool, defineWorker, type SessionEvent, ToolError } from 'pawl'
import { Pawl } from 'pawl/client'
import { anthropic } from 'pawl/models'
import { scripted } from 'pawl/testing'
import { createWorker, superviseWorkers } from 'pawl/worker'
import { z } from 'zod'

const refund = defineTool({
  name: 'refund_order',
  description: 'Refund an order.',
  input: z.object({ orderId: z.string(), cents: z.number().int() }),
  effect: 'external',
  execute: async (input, ctx) => {
    const order: string = input.orderId
    // @ts-expect-error There is no such field in the input.
    if (input.nothing) throw new ToolError('No.', { happened: false })
    return { id: `${order}:${ctx.idempotencyKey}` }
  },
  verify: async () => ({ happened: false }),
})

export const support = defineAgent({
  name: 'support',
  model: process.env.ANTHROPIC_API_KEY ? anthropic('claude-sonnet-5-5') : scripted(() => 'Hello.'),
  instructions: 'Help.',
  tools: [refund],
  context: z.object({ tenantId: z.string() }),
})

// @ts-expect-error A tool must say what its effect is.
defineTool({ name: 'nameless', description: '', input: z.object({}), execute: () => '' })

export default defineWorker({ agents: [support], services: async () => ({ payments: 1 }) })

export async function backend(): Promise<string> {
  const worker = await createWorker({ agents: [support] })
  const supervisor = await superviseWorkers({ module: './worker.js', processes: 2 })
  const pawl = await Pawl.connect()
  const session = pawl.session<typeof support>('customer-42', { agent: 'support', context: { tenantId: 'acme' } })
  // @ts-expect-error The agent's context has another field.
  pawl.session<typeof support>('customer-43', { agent: 'support', context: { tenant: 'acme' } })
  const run = await session.send('Where is my order?', { messageId: 'm-1' })
  for await (const event of run.events()) said(event)
  const { text } = await run.result({ timeout: 1_000 })
  await Promise.all([worker.shutdown(), supervisor.shutdown()])
  return text
}

function said(event: SessionEvent): number {
  return event.type === 'run_completed' ? event.seq : 0
}
