// The retail workload's MCP server over stdio.
import { serveStdio } from '@modelcontextprotocol/server/stdio'
import { connectRetail } from './client.ts'
import { retailMcpServer } from './mcp-server.ts'

const retail = connectRetail(process.env.RETAIL_URL ?? '')
serveStdio(() => retailMcpServer(retail))
