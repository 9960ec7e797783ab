// The list of an MCP server's tools, for all sessions or for one user: read once, kept, and read again when it may have changed.
import type { Logger, SourceReport, Tool } from '../../agent/tool.ts'
import { inTime } from '../../waiting/in-time.ts'
import type { ToolCaller } from './call.ts'
import type { ServerListing } from './connection.ts'
import { isUnauthorized, unavailable } from './errors.ts'
import { type MadeTools, type ServerTools, toolsFrom } from './list.ts'

/** How long the list of a server that does not announce changes counts as current. */
const FRESH_MS = 60_000
/** How long a model call waits for a server whose list could not be read before. */
const AFTER_FAILURE_MS = 500

/** A server's tools, as one identity sees them. */
export interface ToolList {
  /** The tools as last read. Waits for the first reading, for a limited time; empty if they have never been read. Never rejects. */
  tools(log: Logger): Promise<ReadonlyMap<string, Tool>>
  /** A tool; `again`: reads the list again first. @throws ToolError `mcp_unavailable` if the list has never been read. */
  find(tool: string, log: Logger, how?: 'again'): Promise<Tool | undefined>
  /** The error of the last reading; undefined if it succeeded, or if nothing has been read yet. */
  failure(): Error | undefined
  isKnown(): boolean
  /** Reads the list now. @throws ToolError `mcp_unavailable`. */
  refresh(log: Logger): Promise<void>
  /** Reads the list now, and describes it. @throws ToolError `mcp_unavailable`. */
  describe(log: Logger): Promise<SourceReport>
  /** The list may have changed. */
  expire(): void
}

interface KnownTools extends ServerTools {
  about: string
}

/** What the lists of a server share: tools that are equal for several users are made once, and what is wrong with them is said once. */
export interface SharedTools {
  made: MadeTools
  /** The tools that were left out, as last logged. */
  saidLeftOut?: string
}

/** `readList`: asks the server. */
export function toolList(caller: ToolCaller, shared: SharedTools, readList: (log: Logger) => Promise<ServerListing>): ToolList {
  const { name } = caller.rules
  let known: KnownTools | undefined
  let reading: Promise<KnownTools> | undefined
  let failure: Error | undefined
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
      const { tools: listed, about, announces } = await readList(log)
      const now = { ...madeFrom(listed), about }
      if (announces && staleAt > 0) staleAt = Infinity
      noteChanges(now, log)
      known = now
      failure = undefined
      return now
    } catch (error) {
      // That a user has not signed in is no fault of the server.
      const level = isUnauthorized(error) ? 'debug' : 'warn'
      if (failure?.message !== (error as Error).message)
        log[level]({ server: name, err: error }, 'the tools of an MCP server could not be read')
      failure = error as Error
      throw error
    }
  }

  function madeFrom(listed: Parameters<typeof toolsFrom>[0]): ServerTools {
    try {
      return toolsFrom(listed, caller, shared.made)
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
    const said = JSON.stringify(leftOut)
    if (!before && leftOut.length > 0 && shared.saidLeftOut !== said)
      log.warn({ server: name, leftOut }, 'some tools of an MCP server are left out')
    shared.saidLeftOut = said
  }

  return {
    async tools(log) {
      if (known && Date.now() < staleAt) return known.tools
      const newest = read(log).catch(() => undefined)
      if (known) return known.tools
      // A server that refused its user before answers at once.
      const isWorthWaiting = failure === undefined || isUnauthorized(failure)
      const first = isWorthWaiting ? await newest : await inTime(newest, AFTER_FAILURE_MS)
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
    failure: () => failure,
    isKnown: () => known !== undefined,
    async refresh(log) {
      await read(log)
    },
    async describe(log) {
      const { about, report } = await read(log)
      return { source: name, about, ...report }
    },
    expire: () => void (staleAt = 0),
  }
}
