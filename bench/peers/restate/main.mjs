// A service whose handler has the loop, with a `ctx.run` for each model and tool call. An invocation is retried every 50 ms.
import * as clients from '@restatedev/restate-sdk-clients'
import * as restate from '@restatedev/restate-sdk'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, fill, serve, setting } from '../program.mjs'

const [ingress, admin, , port] = setting.ports

const service = restate.service({
  name: 'bench',
  handlers: {
    async conversation(ctx, said) {
      const messages = [{ role: 'user', content: JSON.stringify(said) }]
      for (let turn = 1; ; turn += 1) {
        const message = await ctx.run('model', () => answer(messages, turn))
        if (!message) return 'done'
        const call = message.content[0]
        const content = await ctx.run('tool', () => fill(call.input))
        messages.push(message, { role: 'user', content: [{ type: 'tool_result', tool_use_id: call.id, content }] })
      }
    },
  },
  options: {
    retryPolicy: { initialInterval: 50, maxInterval: 50 },
    // A tool may take this long without a word.
    inactivityTimeout: { minutes: 15 },
    abortTimeout: { minutes: 15 },
    // So that what an invocation has stored can be measured when it is over.
    journalRetention: { hours: 1 },
  },
})

function answer(messages, turn) {
  const input = ask(JSON.parse(messages[0].content), turn)
  return input ? { role: 'assistant', content: [{ type: 'tool_use', id: `toolu_${turn}`, name: 'fill', input }] } : null
}

await restate.serve({ services: [service], port })
if (!setting.resume) await register()
const client = clients.connect({ url: `http://127.0.0.1:${ingress}` })

await serve(
  async (said) => {
    // A result can be fetched only by whoever has sent a key.
    const sent = await client.serviceSendClient(service).conversation(said, clients.rpc.sendOpts({ idempotencyKey: said.id }))
    await client.result(sent)
    return { stored: await storedBytes(sent.invocationId) }
  },
  async () => {},
)

/** Tells the server where the service is, once it answers. */
async function register() {
  for (;;) {
    const response = await fetch(`http://127.0.0.1:${admin}/deployments`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ uri: `http://127.0.0.1:${port}` }),
    }).catch(() => undefined)
    if (response?.ok) return
    if (response && response.status < 500) throw new Error(`Restate refused the deployment: ${await response.text()}`)
    await sleep(100)
  }
}

async function storedBytes(invocationId) {
  const response = await fetch(`http://127.0.0.1:${admin}/query`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify({ query: `SELECT SUM(raw_length) AS bytes FROM sys_journal WHERE id = '${invocationId}'` }),
  })
  const { rows } = await response.json()
  return Number(rows[0].bytes)
}
