// The tools that an agent has now: those that it declares, and those of its sources, which may change while it runs.
import type { Agent } from '../agent/agent.ts'
import { defineTool } from '../agent/define-tool.ts'
import type { Logger, Tool } from '../agent/tool.ts'
import type { ToolCallInput } from '../calls/activities.ts'
import { z } from 'zod'

/** The agent with the tools that its sources have now. A source that cannot be read has the tools that were last read, or none. */
export async function withToolsNow(agent: Agent, log: Logger): Promise<Agent> {
  const { sources, tools } = agent
  if (sources.length === 0) return agent
  const found = await Promise.all(sources.map((source) => source.tools(log)))
  return { ...agent, tools: new Map([...tools, ...found.flatMap((one) => [...one])]) }
}

/** The agent's tool of this name. @throws ToolError `mcp_unavailable`. */
export async function toolNow({ tools, sources }: Agent, name: string, log: Logger): Promise<Tool | undefined> {
  return tools.get(name) ?? (await sources.find((source) => source.owns(name))?.find(name, log))
}

/**
 * The tool for a resolved call, if it `fits` the resolution. If a source's tool does not, its source is read again: it may have changed. If
 * the source cannot be read, the tool is one whose attempts fail, so that the call is retried like any other whose server is down.
 */
export async function toolForCall(
  { tools, sources }: Agent,
  resolution: ToolCallInput['resolution'],
  log: Logger,
  fits: (tool: Tool) => boolean,
): Promise<Tool | undefined> {
  const { tool: name } = resolution
  const fitting = (tool: Tool | undefined): Tool | undefined => (tool && fits(tool) ? tool : undefined)
  const source = tools.has(name) ? undefined : sources.find((one) => one.owns(name))
  if (!source) return fitting(tools.get(name))
  try {
    return fitting(await source.find(name, log)) ?? fitting(await source.find(name, log, 'again'))
  } catch (error) {
    return failingTool(resolution, error)
  }
}

function failingTool({ tool: name, effect }: ToolCallInput['resolution'], error: unknown): Tool {
  return defineTool({
    name,
    description: name,
    input: z.looseObject({}),
    effect,
    execute() {
      throw error
    },
  })
}

/** Why the agent does not know a tool of this name: its source cannot be read. Undefined if that is not the reason. */
export function whyUnknown({ sources }: Agent, name: string): string | undefined {
  return sources.find((source) => source.owns(name))?.problem()
}
