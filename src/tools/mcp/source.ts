// The tools of an MCP server as an agent's tool source: read once, kept, and read again when they may have changed.
import type { Logger, ToolSource } from '../../agent/tool.ts'
import { inTime } from '../../waiting/in-time.ts'
import type { ToolCaller } from './call.ts'
import { sharedIdentity } from './auth.ts'
import { mcpPool } from './pool.ts'
import { unavailable } from './errors.ts'
import { type ServerTools, toolsFrom } from './list.ts'
import { prefixOf } from './names.ts'
import type { McpRules } from './options.ts'

/** How long the list of a server that does not announce changes counts as current. */
const FRESH_MS = 60_000
/** How long a model call waits for a server whose list could not be read before. */
const AFTER_FAILURE_MS = 500

interface KnownTools extends ServerTools {
  about: string
}

/** The source. It opens no connection before it is used. */
export function mcpSource(rules: McpRules): ToolSource {
  const { name } = rules
  const pool = mcpPool(rules, sharedIdentity(rules), () => (staleAt = 0))
  const caller: ToolCaller = { pool, rules, onRefused: () => (staleAt = 0) }
  const made: Parameters<typeof toolsFrom>[2] = new Map()
  let known: KnownTools | undefined
  let reading: Promise<KnownTools> | undefined
  let problem: string | undefined
  /** When the list should be read again. */
  let staleAt = 0

  /** Reads the list; requests at the same time share one reading. @throws ToolError `mcp_unavailable`. */
  function read(log: Logger): Promise<KnownTools> {
    reading ??= readNow(log).finally(() => {
      reading = undefined
    })
    return reading
  }

  async function readNow(log: Logger): Promise<KnownTools> {
    // A change that is announced meanwhile makes the list stale again.
    staleAt = Date.now() + FRESH_MS
    try {
      const { tools: listed, about, announces } = await pool.list(log)
      const now = { ...madeFrom(listed), about }
      if (announces && staleAt > 0) staleAt = Infinity
      noteChanges(now, log)
      known = now
      problem = undefined
      return now
    } catch (error) {
      const message = (error as Error).message
      if (problem !== message) log.warn({ server: name, err: error }, 'the tools of an MCP server could not be read')
      problem = message
      throw error
    }
  }

  function madeFrom(listed: Parameters<typeof toolsFrom>[0]): ServerTools {
    try {
      return toolsFrom(listed, caller, made)
    } catch (error) {
      throw unavailable(name, error)
    }
  }

  /** What a server lists decides what the model may call, so changes are logged. */
  function noteChanges({ tools, report: { leftOut } }: KnownTools, log: Logger): void {
    const before = known?.tools
    const added = [...tools.keys()].filter((tool) => !before?.has(tool))
    const removed = [...(before?.keys() ?? [])].filter((tool) => !tools.has(tool))
    const changed = [...tools].flatMap(([tool, is]) => (before?.has(tool) && before.get(tool) !== is ? tool : []))
    if (before && added.length + removed.length + changed.length > 0)
      log.info({ server: name, added, removed, changed }, 'the tools of an MCP server have changed')
    if (!before && leftOut.length > 0) log.warn({ server: name, leftOut }, 'some tools of an MCP server are left out')
  }

  return {
    name,
    owns: (tool) => tool.startsWith(prefixOf(name)),
    problem: () => (known ? undefined : (problem ?? `The tools of the MCP server "${name}" have not been read yet.`)),
    async tools(log) {
      if (known && Date.now() < staleAt) return known.tools
      const newest = read(log).catch(() => undefined)
      if (known) return known.tools
      const first = problem === undefined ? await newest : await inTime(newest, AFTER_FAILURE_MS)
      return first?.tools ?? new Map()
    },
    async find(tool, log, how) {
      if (known && how === undefined) return known.tools.get(tool)
      try {
        return (await read(log)).tools.get(tool)
      } catch (error) {
        if (!known) throw error
        return known.tools.get(tool)
      }
    },
    async describe(log) {
      const { about, report } = await read(log)
      return { source: name, about, ...report }
    },
    close: () => pool.close(),
  }
}
