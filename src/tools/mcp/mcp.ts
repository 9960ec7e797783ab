// `mcp`: the tools of an MCP server as tools of an agent.
import type { ContextTypes, NeedsOf, ToolSource } from '../../agent/tool.ts'
import { type McpOptions, rulesOf } from './options.ts'
import { requireSdk } from './sdk.ts'
import { mcpSource } from './source.ts'

/** Declares an MCP server; see `McpOptions` for its options. */
export interface DeclareMcp<T extends ContextTypes> {
  /**
   * Declares an MCP server whose tools an agent gets.
   * @throws DeclarationError `invalid_mcp_server` for an option that is unknown, missing or not allowed; `mcp_client_missing` if the package
   * `@modelcontextprotocol/client` is not installed.
   */
  (options: McpOptions<T>): ToolSource<NeedsOf<T>>
  /** The same function, for functions in the options whose `ctx.services`, `ctx.context` and `ctx.slices` have these types. */
  withTypes<U extends ContextTypes>(): DeclareMcp<U>
}

/**
 * Declares an MCP server whose tools an agent gets: `tools: [mcp({ name: 'shop', transport: { type: 'http', url }, effects: { … } })]`.
 * @throws DeclarationError `invalid_mcp_server` for an option that is unknown, missing or not allowed; `mcp_client_missing` if the package
 * `@modelcontextprotocol/client` is not installed.
 */
export const mcp: DeclareMcp<object> = Object.assign(declare as DeclareMcp<object>, {
  withTypes: <U extends ContextTypes>() => mcp as unknown as DeclareMcp<U>,
})

function declare(given: unknown): ToolSource {
  const rules = rulesOf(given)
  requireSdk()
  return mcpSource(rules)
}
