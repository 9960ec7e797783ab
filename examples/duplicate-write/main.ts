// The same e-mail, asked for again and again: what each key scope sends, what it replays, and why.
import { defineAgent, defineTool, type Agent, type Idempotency, type Message } from 'pawl'
import { Pawl } from 'pawl/client'
import { scripted, startStack } from 'pawl/testing'
import { createWorker } from 'pawl/worker'
import { z } from 'zod'

/** The outside world: every e-mail that was really sent, by session. */
const sent: string[] = []

const receipt = z.object({ orderId: z.string(), to: z.string() })
type Receipt = z.infer<typeof receipt>

/** Key scopes by the names of their agents, and why they answer as they do. */
const SCOPES: Record<string, { idempotency: Idempotency<Receipt>; why: string }> = {
  run: { idempotency: 'run', why: 'one e-mail for each intent; regenerating repeats no intent' },
  session: { idempotency: 'session', why: 'one e-mail with these arguments, ever' },
  call: { idempotency: 'call', why: 'one e-mail for each request of the model; only repetitions of a request are replayed' },
  order: { idempotency: ({ orderId }) => orderId, why: 'one e-mail for each order, whatever the recipient' },
}

function agentWith(name: string, idempotency: Idempotency<Receipt>): Agent {
  const sendReceipt = defineTool({
    name: 'send_receipt',
    description: 'E-mail the receipt of an order.',
    input: receipt,
    effect: 'idempotent',
    idempotency,
    execute: ({ orderId, to }, ctx) => {
      sent.push(ctx.sessionId)
      return `the receipt of ${orderId} went to ${to}`
    },
  })
  return defineAgent({ name, instructions: 'Send receipts.', model: forgetful, tools: [sendReceipt] })
}

/** A model that asks for the same e-mail twice in every run before it answers. */
const forgetful = scripted(({ messages }) => {
  const done = results(messages)
  if (done === 2) return 'The receipt is on its way.'
  return [{ type: 'tool_use', id: `toolu_${done}`, name: 'send_receipt', input: { orderId: 'A17', to: 'ann@example.org' } }]
})

/** How many results there are since the user last wrote. */
function results(messages: readonly Message[]): number {
  let count = 0
  for (const { role, content } of messages) {
    if (role !== 'user') continue
    const isResult = typeof content !== 'string' && content.some(({ type }) => type === 'tool_result')
    count = isResult ? count + 1 : 0
  }
  return count
}

/** Two runs with the same request and a regeneration of the second one, in a session of the agent. */
async function ask(pawl: Pawl, agent: string): Promise<void> {
  const session = pawl.session(`${agent}-${Date.now().toString(36)}`, { agent })
  await (await session.send('Send the receipt of A17 to Ann.')).result()
  await (await session.send('Send the receipt of A17 to Ann.')).result()
  await (await session.regenerate({ by: 'ann' })).result()
  await session.close() // everything is in Postgres then

  const count = sent.filter((id) => id === session.id).length
  console.log(`\nkey scope: ${agent} (${SCOPES[agent]?.why})`)
  for (const { callId, replayOf } of await session.toolCalls()) {
    console.log(`  ${callId}  ${replayOf === null ? 'sent' : `replayed: the result of ${replayOf}`}`)
  }
  console.log(`  e-mails sent: ${count}`)
}

const agents = Object.entries(SCOPES).map(([name, { idempotency }]) => agentWith(name, idempotency))
process.env.PAWL_LOG_LEVEL ??= 'error'
const stack = await startStack()
const at = {
  temporal: { address: stack.temporalAddress, namespace: stack.namespace },
  postgres: stack.databaseUrl,
  taskQueue: 'duplicate-write',
}
const worker = await createWorker({ ...at, agents })
const serving = worker.run()
const pawl = await Pawl.connect(at)
try {
  for (const agent of Object.keys(SCOPES)) await ask(pawl, agent)
} finally {
  await pawl.close()
  await worker.shutdown()
  await serving
  await stack.stop()
}
