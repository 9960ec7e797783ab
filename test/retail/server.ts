// The outside process: the retail tools over HTTP, one fresh database per world. Run it: `node --import tsx test/retail/server.ts`.
//
//   POST /worlds/:world/tools/:tool          arguments as JSON; header Idempotency-Key: key or reference → the tool's text
//   GET  /worlds/:world/tools/:tool/:key     the text of what was executed with this reference, or 404
//   GET  /worlds/:world                      { finalHash, executions, replays }
//   DELETE /worlds/:world                    the next request finds it fresh
//
// RETAIL_LATENCY_MS (default 30): upper bound of each of the two waits of a request, before and after its effect.
// RETAIL_SEED (default 1): seed of those waits. RETAIL_PORT (default: any free one). Prints {"port"} when it listens.
// Started with an IPC channel, it sends { tool } for every request that arrives, and exits with the process that started it.
import { type IncomingMessage, type ServerResponse, createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JsonObject } from '../../src/session/json.ts'
import { KeyReused, type World, createWorld, handle, lookUp, reportOn } from './ledger.ts'
import { seededRandom } from '../../src/testing/crash/random.ts'
import { readDatabase } from './workload.ts'
import { WORLD_TOOLS } from './world.ts'

const latencyMs = Number(process.env.RETAIL_LATENCY_MS ?? 30)
const random = seededRandom(Number(process.env.RETAIL_SEED ?? 1))
const fresh = readDatabase()
const worlds = new Map<string, World>()

const delay = async () => {
  await sleep(Math.floor(random() * (latencyMs + 1)))
}

function worldOf(id: string): World {
  const world = worlds.get(id) ?? createWorld(fresh)
  worlds.set(id, world)
  return world
}

async function bodyOf(request: IncomingMessage): Promise<JsonObject> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return JSON.parse(Buffer.concat(chunks).toString('utf8')) as JsonObject
}

function answer(response: ServerResponse, status: number, text: string, type = 'text/plain'): void {
  response.writeHead(status, { 'content-type': `${type}; charset=utf-8` }).end(text)
}

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://retail')
  const [, root, world, tools, tool, key] = pathname.split('/').map(decodeURIComponent)
  if (root !== 'worlds' || !world) return answer(response, 404, 'The paths are /worlds/:world and /worlds/:world/tools/:tool.')
  if (tools === undefined && request.method === 'DELETE') {
    worlds.delete(world)
    return answer(response, 200, '')
  }
  if (tools === undefined) return answer(response, 200, JSON.stringify(reportOn(worldOf(world))), 'application/json')
  if (tools !== 'tools' || !tool || !WORLD_TOOLS.has(tool)) return answer(response, 404, `There is no tool "${tool}".`)
  if (request.method === 'GET' && key) {
    const found = await lookUp(worldOf(world), tool, key)
    return found === null ? answer(response, 404, 'Nothing was executed with this reference.') : answer(response, 200, found)
  }
  const args = await bodyOf(request)
  process.send?.({ tool })
  const sent = request.headers['idempotency-key']
  answer(response, 200, await handle(worldOf(world), { tool, args, key: typeof sent === 'string' ? sent : null, delay }))
}

function statusOf(error: unknown): number {
  return error instanceof SyntaxError || error instanceof URIError ? 400 : error instanceof KeyReused ? 422 : 500
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: unknown) => {
    if (response.headersSent || response.destroyed) return response.destroy()
    return answer(response, statusOf(error), error instanceof Error ? error.message : String(error))
  })
})
server.listen(Number(process.env.RETAIL_PORT ?? 0), '127.0.0.1', () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }))
})
const stop = () => process.exit(0)
process.on('SIGTERM', stop).on('SIGINT', stop).on('disconnect', stop)
