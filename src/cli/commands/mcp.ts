// `pawl mcp <module>`: the MCP servers of the module's agents, their tools, and the effect that each tool gets.
import { Command } from 'commander'
import { counted } from '../../session/counted.ts'
import type { ListedSource } from '../../worker/protocol.ts'
import { jsonOption } from '../options.ts'
import { say } from '../queries.ts'
import { findModule } from '../running/module.ts'
import { type Column, linesOfTable } from '../table.ts'
import { oneLine, paint } from '../terminal.ts'

type ReachedServer = Exclude<ListedSource, { problem: string }>
type McpToolRow = ReachedServer['tools'][number]

const TOOLS: Column<McpToolRow>[] = [
  { name: 'tool', of: ({ name }) => name, whole: true },
  { name: 'effect', of: ({ effect }) => effect },
  { name: 'approval', of: ({ approval }) => (approval ? 'required' : '-') },
  { name: 'verify', of: ({ effect, verify }) => (effect === 'external' ? (verify ? 'yes' : 'no') : '-') },
  { name: 'rule', of: ({ rule }) => rule },
]

const MESSAGE_WIDTH = 1_000

export function mcpCommand(): Command {
  return new Command('mcp')
    .description("list the tools of the MCP servers of a module's agents, the effect of each tool, and which rule decided it")
    .argument('<module>', 'the worker module')
    .addOption(jsonOption())
    .action(list)
}

/** Exit code 1: a server was unavailable. */
async function list(given: string, options: { json?: true }): Promise<void> {
  const module = await findModule(given)
  // Loaded on demand, so that `pawl --help` is fast.
  const { listSources } = await import('../../worker/preflight/list-sources.ts')
  const sources = await listSources(module)
  if (sources.some((source) => 'problem' in source)) process.exitCode = 1
  if (options.json) for (const source of sources) say(JSON.stringify(source))
  else if (sources.length === 0) say('The agents of this module have no MCP servers.')
  else for (const source of sources) for (const line of linesOf(source)) say(line)
}

function linesOf(source: ListedSource): string[] {
  const heading = `${source.source} (agent ${source.agent})`
  if ('problem' in source) return [`${paint('red', heading)}: ${oneLine(source.problem, MESSAGE_WIDTH)}`, '']
  const { about, tools, leftOut } = source
  return [
    `${heading}: ${oneLine(about, MESSAGE_WIDTH)}, ${counted(tools.length, 'tool')}`,
    ...(tools.length > 0 ? linesOfTable(TOOLS, tools) : []),
    ...leftOut.map(({ original, why }) => `${paint('yellow', 'left out')} ${oneLine(original, 128)}: ${oneLine(why, MESSAGE_WIDTH)}`),
    '',
  ]
}
