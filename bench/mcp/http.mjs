// The benchmark's servers over Streamable HTTP: /many has more tools, every other path is a server with few. Tells its parent the port.
import { serve } from '@hono/node-server'
import { createMcpHandler } from '@modelcontextprotocol/server'
import { benchServer } from './server.mjs'

const [bytes, tools] = process.argv.slice(2).map(Number)
const few = createMcpHandler(() => benchServer({ bytes }))
const many = createMcpHandler(() => benchServer({ bytes, tools }))
const answer = (request) => (new URL(request.url).pathname === '/many' ? many : few).fetch(request)
serve({ fetch: answer, hostname: '127.0.0.1', port: 0 }, ({ port }) => process.send(port))
process.once('disconnect', () => process.exit(0))
