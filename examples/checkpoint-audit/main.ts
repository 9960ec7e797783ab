// Audits how a session came about: counts its checkpoints, reads it as it was at each of them, and deletes one from the middle.
import { defineAgent, defineTool, type Message } from 'pawl'
import { Pawl, type SessionHandle } from 'pawl/client'
import { scripted, startStack } from 'pawl/testing'
import { createWorker } from 'pawl/worker'
import pg from 'pg'
import { z } from 'zod'

const refund = defineTool({
  name: 'refund_order',
  description: 'Refund an order.',
  input: z.object({ orderId: z.string() }),
  effect: 'idempotent',
  execute: ({ orderId }) => ({ refund: `R-${orderId}` }),
  effectId: ({ refund: id }) => id,
})

/** Refunds the order that the customer names, and confirms it. */
const clerk = scripted(({ messages }) => {
  const last = textOf(messages.at(-1))
  if (last.includes('R-')) return 'Your money is on its way.'
  const orderId = /[A-Z]\d+/.exec(last)?.[0]
  return orderId === undefined
    ? 'Which order is it about?'
    : [{ type: 'tool_use', id: `toolu_${orderId}`, name: 'refund_order', input: { orderId } }]
})

function textOf(message: Message | undefined): string {
  return JSON.stringify(message?.content ?? '')
}

const agents = [defineAgent({ name: 'clerk', instructions: 'Refund orders.', model: clerk, tools: [refund] })]

process.env.PAWL_LOG_LEVEL ??= 'error'
const stack = await startStack()
const at = {
  temporal: { address: stack.temporalAddress, namespace: stack.namespace },
  postgres: stack.databaseUrl,
  taskQueue: 'checkpoint-audit',
}
const worker = await createWorker({ ...at, agents })
const serving = worker.run()
const pawl = await Pawl.connect(at)
const sql = new pg.Client({ connectionString: stack.databaseUrl })
await sql.connect()
try {
  const session = pawl.session(`customer-${Date.now().toString(36)}`, { agent: 'clerk' })
  for (const text of ['I want my money back.', 'For A17, please.', 'And for B4.']) await (await session.send(text)).result()
  await session.close() // everything is in Postgres then
  await audit(session)
  await deleteMiddle(session)
} finally {
  await sql.end()
  await pawl.close()
  await worker.shutdown()
  await serving
  await stack.stop()
}

/** Every checkpoint with what the session had said and done by then. */
async function audit(session: SessionHandle): Promise<void> {
  const checkpoints = await session.checkpoints()
  console.log(`${checkpoints.length} checkpoints`)
  const calls = await session.toolCalls()
  for (const { version, run, turn } of checkpoints.toSorted((one, other) => one.version - other.version)) {
    const messages = await session.messagesUpTo({ checkpoint: version })
    const effects = calls.filter((call) => place(call) <= place({ run, turn })).map(({ effectId }) => effectId)
    console.log(
      `  ${version}: run ${run}, ${turn === null ? 'its end' : `turn ${turn}`}, ${messages.length} messages, effects: ${effects.join(', ') || 'none'}`,
    )
  }
}

/** A number to sort by; a checkpoint without a turn is at the end of its run. No run of this agent has a thousand turns. */
function place({ run, turn }: { run: number | null; turn: number | null }): number {
  return (run ?? 0) * 1_000 + (turn ?? 999)
}

/** Deletes a checkpoint's row, as an operator may by mistake, and continues the session. */
async function deleteMiddle(session: SessionHandle): Promise<void> {
  const { rowCount } = await sql.query('delete from pawl.checkpoints where session_id = $1 and version = 3', [session.id])
  console.log(`deleted ${rowCount} row: ${(await session.checkpoints()).length} checkpoints are left`)
  console.log(`resumed: ${(await (await session.send('Thank you. And C9?')).result()).text}`)
  const { toSeq } = await session.rollback({ checkpoint: 3, by: 'auditor' })
  const { length } = await session.messages()
  console.log(`rolled back to the deleted checkpoint: event ${toSeq}, ${length} messages`)
}
