// The tools that an agent has now: those that it declares, and those of its sources, which may change while it runs.
import type { Agent } from '../agent/agent.ts'
import { defineTool } from '../agent/define-tool.ts'
import type { SourceContext, Tool, ToolContext, ToolSource } from '../agent/tool.ts'
import type { ToolCallInput } from '../calls/activities.ts'
import { ownContext } from './agent-context.ts'
import { z } from 'zod'

/**
 * The agent with the tools that its sources have now for the session. A source that cannot be read has the tools that were last read, or none.
 */
export async function withToolsNow(agent: Agent, ctx: SourceContext): Promise<Agent> {
  if (agent.sources.length === 0) return agent
  const sources = agent.sources.map((source) => source.forSession?.(ownContext(ctx)) ?? source)
  const found = await Promise.all(sources.map((source) => source.tools(ctx.log)))
  return { ...agent, sources, tools: new Map([...agent.tools, ...found.flatMap((one) => [...one])]) }
}

/** The source that has a tool of this name for the session; undefined if the agent itself declares the tool, or nobody does. */
function sourceOf({ tools, sources }: Agent, name: string, ctx: SourceContext): ToolSource | undefined {
  const source = tools.has(name) ? undefined : sources.find((one) => one.owns(name))
  return source?.forSession?.(ownContext(ctx)) ?? source
}

/** The agent's tool of this name. @throws ToolError `mcp_unavailable`. */
export async function toolNow(agent: Agent, name: string, ctx: SourceContext): Promise<Tool | undefined> {
  return agent.tools.get(name) ?? (await sourceOf(agent, name, ctx)?.find(name, ctx.log))
}

/**
 * The tool for a resolved call, if it `fits` the resolution. If a source's tool does not, its source is read again: it may have changed. If
 * the source cannot be read, the tool is one whose attempts fail, so that the call is retried like any other whose server is down.
 */
export async function toolForCall(
  agent: Agent,
  resolution: ToolCallInput['resolution'],
  ctx: SourceContext,
  fits: (tool: Tool) => boolean,
): Promise<Tool | undefined> {
  const { tool: name } = resolution
  const fitting = (tool: Tool | undefined): Tool | undefined => (tool && fits(tool) ? tool : undefined)
  const source = sourceOf(agent, name, ctx)
  if (!source) return fitting(agent.tools.get(name))
  try {
    return fitting(await source.find(name, ctx.log)) ?? fitting(await source.find(name, ctx.log, 'again'))
  } catch (error) {
    return failingTool(source, resolution, error)
  }
}

function failingTool(source: ToolSource, { tool: name, effect }: ToolCallInput['resolution'], error: unknown): Tool {
  return defineTool({
    name,
    description: name,
    input: z.looseObject({}),
    effect,
    async execute(_, ctx) {
      await source.askUser?.(ctx as ToolContext)
      throw error
    },
  })
}

/** Why the agent does not know a tool of this name: its source cannot be read. Undefined if that is not the reason. */
export function whyUnknown({ sources }: Agent, name: string): string | undefined {
  return sources.find((source) => source.owns(name))?.problem()
}
