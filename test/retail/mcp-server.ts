// The tools of the retail workload as an MCP server in front of the outside process. `world` is one more argument of each tool.
import { type CallToolResult, Server } from '@modelcontextprotocol/server'
import type { JsonObject } from '../../src/session/json.ts'
import type { RetailClient } from './client.ts'
import { readToolSpecs } from './workload.ts'

const STRING = { type: 'string' as const }
/** Looks up what was executed with a reference. */
export const LOOK_UP = 'look_up'

/** A server for one connection. */
export function retailMcpServer(retail: RetailClient): Server {
  const server = new Server({ name: 'retail', version: '1' }, { capabilities: { tools: {} } })
  server.setRequestHandler('tools/list', () => ({
    tools: [
      ...readToolSpecs().map(({ name, description, input_schema: schema }) => ({ name, description, inputSchema: withWorld(schema) })),
      { name: LOOK_UP, inputSchema: { type: 'object' as const, properties: { world: STRING, tool: STRING, key: STRING } } },
    ],
  }))
  server.setRequestHandler('tools/call', async ({ params: { name, arguments: given = {}, _meta = {} } }, { mcpReq: { signal } }) => {
    const { world, ...args } = given as JsonObject & { world: string }
    if (name === LOOK_UP) {
      const { tool, key } = args as { tool: string; key: string }
      return { content: [], structuredContent: { result: await retail.lookUp(world, tool, key, { signal }) } }
    }
    const key = _meta['dev.pawl/idempotency-key']
    return textOf(await retail.execute(world, name, args, { signal, ...(typeof key === 'string' && { key }) }))
  })
  return server
}

const textOf = (text: string): CallToolResult => ({ content: [{ type: 'text', text }] })

function withWorld(schema: JsonObject) {
  const { properties, required = [] } = schema as { properties?: JsonObject; required?: string[] }
  return { ...schema, type: 'object' as const, properties: { ...properties, world: STRING }, required: [...required, 'world'] }
}
