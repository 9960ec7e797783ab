// Serves the faulty MCP server over Streamable HTTP on the loopback interface.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { AddressInfo, Socket } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { faultyServer, type FaultyWorld } from './faulty.ts'

/** A request that is answered in another way than its handler would. */
interface Exchange {
  socket: Socket
  answer(response: Response): void
}

/** Starts one. `generation`: `legacy` answers only the protocol before 2026-07-28. */
export async function startFaulty(
  generation: 'modern' | 'legacy',
  { name, report }: Pick<FaultyWorld, 'name' | 'report'>,
): Promise<{ url: string; close(): Promise<void> }> {
  const exchanges = new AsyncLocalStorage<Exchange>()
  const world: FaultyWorld = {
    name,
    report,
    break(fault) {
      const exchange = exchanges.getStore()
      if (fault === 'cut') exchange?.socket.destroy()
      else if (fault === 'garbage') exchange?.answer(new Response('this is not JSON', { headers: { 'content-type': 'application/json' } }))
      else exchange?.answer(new Response('The gateway has lost its server.', { status: 502 }))
      return new Promise(() => undefined)
    },
  }
  const handler = createMcpHandler(() => faultyServer(world))
  const server = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: answer, hostname: '127.0.0.1', port: 0 }, () => resolve(started))
  })

  async function answer(request: Request, { incoming }: { incoming: { socket: Socket } }): Promise<Response> {
    const body = await request.text()
    if (generation === 'legacy' && body.includes('server/discover'))
      return Response.json({ jsonrpc: '2.0', id: null, error: { code: -32_601, message: 'Method not found' } }, { status: 400 })
    const { method, url, headers } = request
    const again = new Request(url, { method, headers, ...(method === 'POST' && { body }), signal: request.signal })
    return new Promise((resolve, reject) => {
      const exchange: Exchange = { socket: incoming.socket, answer: resolve }
      exchanges.run(exchange, () => handler.fetch(again)).then(resolve, reject)
    })
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async close() {
      await handler.close()
      await new Promise((resolve) => {
        server.close(resolve)
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
    },
  }
}
