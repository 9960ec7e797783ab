// Serves an MCP server over Streamable HTTP on the loopback interface.
import type { AddressInfo } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import { createMcpHandler, type McpHttpHandler } from '@modelcontextprotocol/server'
import { newWorld, shopServer, type ShopWorld } from './shop.ts'

/** A server that is running. */
export interface HttpShop {
  url: string
  world: ShopWorld
  /** Headers of every request, oldest first. */
  headers: Headers[]
  /** Announces that the list of tools has changed. */
  announce(): void
  close(): Promise<void>
}

/** Starts a shop. `generation`: `legacy` answers only the protocol before 2026-07-28. */
export async function startShop(generation: 'modern' | 'legacy' = 'modern', port = 0): Promise<HttpShop> {
  const world = newWorld()
  const headers: Headers[] = []
  const handler: McpHttpHandler = createMcpHandler(() => shopServer(world))
  const server = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: answer, hostname: '127.0.0.1', port }, () => resolve(started))
  })

  async function answer(request: Request): Promise<Response> {
    headers.push(request.headers)
    if (new URL(request.url).pathname === '/old') return new Response(null, { status: 307, headers: { location: '/mcp' } })
    if (generation === 'legacy' && request.headers.get('mcp-method') === 'server/discover')
      return Response.json({ jsonrpc: '2.0', id: null, error: { code: -32_601, message: 'Method not found' } }, { status: 400 })
    return handler.fetch(request)
  }

  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    world,
    headers,
    announce: () => handler.notify.toolsChanged(),
    async close() {
      await handler.close()
      await new Promise((resolve) => {
        server.close(resolve)
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
    },
  }
}
