// The process that loads a worker module for `pawl mcp` and lists the tools of its agents' MCP servers. It creates no services.
import type { Agent } from '../../agent/agent.ts'
import type { Logger, ToolSource } from '../../agent/tool.ts'
import { crossing } from '../errors.ts'
import type { FromLister, ListedSource } from '../protocol.ts'
import { closeSources } from './close-sources.ts'
import { loadWorkerModule } from './load-module.ts'
import { poster } from './poster.ts'

const post = poster<FromLister>()

const ignore = (): void => undefined
/** What is wrong with a server is in the report. */
const SILENT: Logger = { debug: ignore, info: ignore, warn: ignore, error: ignore }

async function listed(agent: Agent, source: ToolSource): Promise<ListedSource> {
  try {
    return { agent: agent.name, ...(await source.describe(SILENT)) }
  } catch (error) {
    return { agent: agent.name, source: source.name, problem: error instanceof Error ? error.message : String(error) }
  }
}

try {
  const { agents } = await loadWorkerModule(process.argv[2] ?? '')
  const sources = await Promise.all(agents.flatMap((agent) => agent.sources.map((source) => listed(agent, source))))
  await closeSources(agents)
  await post({ pawl: 'listed', sources })
  process.exit(0)
} catch (error) {
  await post({ pawl: 'start_failed', error: crossing(error) })
  process.exit(1)
}
