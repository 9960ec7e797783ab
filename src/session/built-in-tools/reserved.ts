// The names of pawl's own tools.
import { isMemoryTool } from './memory-tools.ts'
import { OUTPUT_TOOL } from './output.ts'
import { isPlanTool } from './plan-tools.ts'

/** Whether the name belongs to one of pawl's own tools, even if the agent does not have that tool. */
export function isReserved(name: string): boolean {
  return isPlanTool(name) || isMemoryTool(name) || name === OUTPUT_TOOL
}

/**
 * The effect of a call, for people. pawl's own tools are recorded as reads, because nothing happens outside: they change the session, its plan,
 * memory or output.
 */
export function effectText({ tool, effect }: { tool: string; effect: string }): string {
  return isReserved(tool) ? 'session' : effect
}
