// The MCP SDK, an optional peer: loaded when a server is first used.
import type { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { DeclarationError } from '../../agent/errors.ts'

const PACKAGE = '@modelcontextprotocol/client'

/** The classes of the SDK that pawl uses. */
export interface McpSdk {
  Client: typeof Client
  StreamableHTTPClientTransport: typeof StreamableHTTPClientTransport
  StdioClientTransport: typeof StdioClientTransport
}

/** Finds the SDK without loading it. @throws DeclarationError `mcp_client_missing`. */
export function requireSdk(): void {
  try {
    import.meta.resolve(PACKAGE)
  } catch (cause) {
    throw new DeclarationError('mcp_client_missing', `mcp() needs the package ${PACKAGE}. Install it: npm install ${PACKAGE}@2`, { cause })
  }
}

export async function loadSdk(): Promise<McpSdk> {
  const [client, stdio] = await Promise.all([import('@modelcontextprotocol/client'), import('@modelcontextprotocol/client/stdio')])
  return { ...client, ...stdio }
}
