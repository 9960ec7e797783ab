// An MCP server over HTTP, of the protocol before 2026-07-28, whose calls are answered in one odd way.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

type OddCall = 'huge' | 'huge event' | 'garbage' | 'silent' | 'redirect'

/** A server that is running. */
export interface OddHttp {
  url: string
  /** Requests of calls that arrived. */
  calls(): number
  /** Requests to continue a stream. */
  continued(): number
  close(): Promise<void>
}

const HUGE = 50_000_000

/** Starts one. `elsewhere`: where `redirect` leads. */
export async function startOddHttp(how: OddCall, elsewhere = ''): Promise<OddHttp> {
  let calls = 0
  let continued = 0
  const server = createServer((request, response) => void answer(request, response))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (request.method !== 'POST') {
      if (request.headers['last-event-id'] !== undefined) continued += 1
      return void response.writeHead(405).end()
    }
    const { id, method } = (await json(request)) as { id?: number; method: string }
    const say = (body: object): void =>
      void response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...body }))
    if (id === undefined) return void response.writeHead(202).end()
    if (method === 'initialize')
      return say({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'odd', version: '1' } } })
    if (method === 'tools/list') return say({ result: { tools: [{ name: 'act', inputSchema: { type: 'object', properties: {} } }] } })
    if (method !== 'tools/call') return say({ error: { code: -32_601, message: `Method not found: ${method}` } })
    calls += 1
    switch (how) {
      case 'huge':
        return say({ result: { content: [{ type: 'text', text: 'x'.repeat(HUGE) }] } })
      case 'huge event':
        response.writeHead(200, { 'content-type': 'text/event-stream' })
        // With an id, the client may ask for the rest of a stream that broke.
        return void response.write('id: 1\ndata:\n\n', () => response.end(`id: 2\ndata: ${'x'.repeat(HUGE)}\n\n`))
      case 'garbage':
        return void response.writeHead(200, { 'content-type': 'application/json' }).end('this is not JSON')
      case 'silent':
        return
      case 'redirect':
        return void response.writeHead(307, { location: elsewhere }).end()
    }
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    calls: () => calls,
    continued: () => continued,
    close() {
      server.closeAllConnections()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
