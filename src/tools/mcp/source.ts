// The tools of an MCP server as an agent's tool source.
import type { ToolSource } from '../../agent/tool.ts'
import type { ToolCaller } from './call.ts'
import { sharedIdentity } from './auth.ts'
import { mcpPool } from './pool.ts'
import { prefixOf } from './names.ts'
import type { McpRules } from './options.ts'
import { type SharedTools, type ToolList, toolList } from './tool-list.ts'
import { userLists } from './user-lists.ts'

/** The source. It opens no connection before it is used. */
export function mcpSource(rules: McpRules): ToolSource {
  const { name } = rules
  const expire = (): void => lists?.expire() ?? list.expire()
  const pool = mcpPool(rules, sharedIdentity(rules), expire)
  const caller: ToolCaller = { pool, rules, onRefused: expire }
  const shared: SharedTools = { made: new Map() }
  const list: ToolList = toolList(caller, shared, (log) => pool.list(log))
  const lists = rules.list === 'user' ? userLists(caller, shared) : undefined
  const source: ToolSource = {
    name,
    owns: (tool) => tool.startsWith(prefixOf(name)),
    problem: () =>
      list.isKnown() ? undefined : (list.failure()?.message ?? `The tools of the MCP server "${name}" have not been read yet.`),
    tools: (log) => list.tools(log),
    find: (tool, log, how) => list.find(tool, log, how),
    describe: (log) => list.describe(log),
    close: () => pool.close(),
  }
  if (!lists) return source
  return {
    ...source,
    describe: async () => ({ source: name, about: "its tools are listed for each user (list: 'user')", tools: [], leftOut: [] }),
    forSession: (ctx) => ({ ...source, ...lists.forSession(ctx) }),
  }
}
