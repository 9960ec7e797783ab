// The client that the conformance suite of MCP starts with the address of its server: it reads the tools and calls them, as an executor does.
import type { JsonObject, Tool, ToolContext } from 'pawl'
import { mcp } from 'pawl/tools'

const [url = ''] = process.argv.slice(2)
const scenario = process.env.MCP_CONFORMANCE_SCENARIO
/** The calls that the scenario wants; otherwise each tool is called once. */
const { toolCalls } = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}') as { toolCalls?: { name: string; arguments: JsonObject }[] }

const quiet = () => undefined
const log = { debug: quiet, info: quiet, warn: (fields: object) => console.error(fields), error: quiet }
const ctx = { idempotencyKey: '', signal: new AbortController().signal, log, progress: quiet } as unknown as ToolContext

const server = mcp({ name: 'server', transport: { type: 'http', url }, effects: { '*': 'read' } })
try {
  const tools = [...(await server.tools(log)).values()]
  const problem = server.problem()
  if (problem !== undefined) throw new Error(problem)
  // This one has a tool that only its list matters for.
  for (const tool of scenario === 'json-schema-ref-no-deref' ? [] : tools) {
    const calls = toolCalls?.filter(({ name }) => tool.name === `server__${name}`) ?? [{ arguments: argumentsFor(tool) }]
    for (const call of calls) await tool.execute?.(call.arguments, ctx)
  }
} finally {
  await server.close()
}

function argumentsFor({ inputSchema }: Tool): JsonObject {
  const { properties = {}, required = [] } = inputSchema as { properties?: Record<string, JsonObject>; required?: string[] }
  return Object.fromEntries(required.map((argument) => [argument, exampleOf(properties[argument]?.type)]))
}

function exampleOf(type: unknown): string | number | boolean | JsonObject {
  switch (type) {
    case 'number':
    case 'integer':
      return 5
    case 'boolean':
      return true
    case 'object':
      return {}
    default:
      return 'text'
  }
}
