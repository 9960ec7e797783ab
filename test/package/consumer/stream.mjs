// An Express application that compresses its responses: prints how many of the ten words of an answer had arrived when the model was still
// speaking, and whether the response was compressed. PACKAGES: the folder with express and compression.
import { once } from 'node:events'
import { createServer, request } from 'node:http'
import { createRequire } from 'node:module'
import { createGunzip } from 'node:zlib'
import { defineAgent } from 'pawl'
import { Pawl } from 'pawl/client'
import { createHandler, nodeListener } from 'pawl/service'
import { scripted } from 'pawl/testing'
import { createWorker } from 'pawl/worker'

const load = createRequire(process.env.PACKAGES)
const [express, compression] = [load('express'), load('compression')]

/** The model speaks until enough has arrived, or for too long. */
let heard = () => {}
const enough = new Promise((resolve) => void (heard = resolve))
const model = scripted(async (_, { onDelta }) => {
  for (let n = 0; n < 10; n++) onDelta({ type: 'text', index: 0, text: `word${n} ` })
  await Promise.race([enough, new Promise((resolve) => setTimeout(resolve, 15_000))])
  return Array.from({ length: 10 }, (_, n) => `word${n} `).join('')
})
const taskQueue = process.env.TASK_QUEUE
const worker = await createWorker({ agents: [defineAgent({ name: 'speaker', instructions: 'Speak.', model })], taskQueue })
const running = worker.run()
const pawl = await Pawl.connect({ taskQueue })
const app = express()
app.use(compression())
app.use('/api/pawl', nodeListener(createHandler({ pawl, authorize: () => ({ identity: 'u', scopes: ['read', 'send'] }) })))
app.get('/large', (_, response) => response.send('x'.repeat(100_000)))
const server = createServer(app).listen(0, '127.0.0.1')
await once(server, 'listening')

async function opened(method, path, body) {
  const headers = { 'accept-encoding': 'gzip', ...(body && { 'content-type': 'application/json' }) }
  const asked = request({ agent: false, host: '127.0.0.1', port: server.address().port, method, path, headers })
  asked.end(body && JSON.stringify(body))
  const [response] = await once(asked, 'response')
  return response
}

const plain = await opened('GET', '/large')
plain.destroy()
const message = { id: 'm1', role: 'user', parts: [{ type: 'text', text: 'Speak.' }] }
const response = await opened('POST', '/api/pawl/v1/ui?show=pieces', {
  id: `compressed-${process.pid}`,
  agent: 'speaker',
  messages: [message],
})
const encoding = response.headers['content-encoding'] ?? 'none'
const late = setTimeout(() => response.destroy(), 10_000)
let text = ''
const chunks = encoding === 'gzip' ? response.pipe(createGunzip({ finishFlush: 2 })) : response
const words = () => new Set(text.match(/word\d/g)).size
try {
  for await (const chunk of chunks) {
    text += chunk
    if (words() === 10) break
  }
} catch {}
clearTimeout(late)
const arrived = words()
heard()
response.destroy()
server.closeAllConnections()
server.close()
await pawl.close()
await worker.shutdown()
await running
console.log(JSON.stringify({ compresses: plain.headers['content-encoding'], encoding, arrived }))
