// The retail workload's MCP server over Streamable HTTP on the loopback interface.
import type { AddressInfo } from 'node:net'
import { type ServerType, serve } from '@hono/node-server'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { connectRetail } from './client.ts'
import { retailMcpServer } from './mcp-server.ts'

/** Starts one in front of the outside process at `retailUrl`. */
export async function startRetailMcp(retailUrl: string): Promise<{ url: string; stop(): Promise<void> }> {
  const retail = connectRetail(retailUrl)
  const handler = createMcpHandler(() => retailMcpServer(retail))
  const server = await new Promise<ServerType>((resolve) => {
    const started: ServerType = serve({ fetch: (request) => handler.fetch(request), hostname: '127.0.0.1', port: 0 }, () =>
      resolve(started),
    )
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`,
    async stop() {
      await handler.close()
      await new Promise((resolve) => {
        server.close(resolve)
        if ('closeAllConnections' in server) server.closeAllConnections()
      })
    },
  }
}
