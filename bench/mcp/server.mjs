// The MCP server of the benchmark: a quick read, its process id, and further tools up to the number that is asked for.
// Plain JavaScript, so that no loader counts towards the time that it takes to start.
import { Server } from '@modelcontextprotocol/server'

const object = (properties) => ({ type: 'object', properties, required: Object.keys(properties) })
const text = (said) => ({ content: [{ type: 'text', text: said }] })

/** A further tool, as large as a usual one. */
const further = (index) => ({
  name: `further_${index}`,
  description: `Does the ${index}th of the things that nobody asks for. ${'It says so at length. '.repeat(8)}`,
  inputSchema: object({ id: { type: 'string', description: 'Whose.' }, cents: { type: 'integer', minimum: 0 } }),
})

/** A server for one connection. */
export function benchServer({ tools = 0, bytes = 1_000 } = {}) {
  const server = new Server({ name: 'bench', version: '1' }, { capabilities: { tools: {} } })
  const own = [
    { name: 'look', description: 'Answers with filling.', inputSchema: object({ turn: { type: 'number' } }) },
    { name: 'pid', description: 'Answers with its process.', inputSchema: object({}) },
  ]
  const listed = [...own, ...Array.from({ length: Math.max(0, tools - own.length) }, (_, index) => further(index))]
  server.setRequestHandler('tools/list', () => ({ tools: listed }))
  server.setRequestHandler('tools/call', ({ params: { name } }) => text(name === 'pid' ? String(process.pid) : 'x'.repeat(bytes)))
  return server
}
