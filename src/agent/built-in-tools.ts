// The tools of pawl's own that an agent has: the workflow answers their calls.
import type { Resolution } from '../session/events.ts'
import { isMemoryTool, MEMORY_TOOLS } from '../session/memory-tools.ts'
import { isPlanTool, PLAN_TOOLS } from '../session/plan-tools.ts'
import type { Agent } from './agent.ts'
import { memoryDefinitions } from './memory-tools.ts'
import type { ToolDefinition } from './model.ts'
import { PLAN_DEFINITIONS } from './plan-tools.ts'

/** Whether a tool of that name would be one of pawl's own, whichever the agent has. */
export function isReserved(name: string): boolean {
  return isPlanTool(name) || isMemoryTool(name)
}

/** The tools of pawl's own that the agent's model is given. */
export function builtInTools({ plan, memory }: Pick<Agent, 'plan' | 'memory'>): ToolDefinition[] {
  return [...(plan ? PLAN_DEFINITIONS : []), ...(memory.length > 0 ? memoryDefinitions(memory) : [])]
}

/** Their names. */
export function builtInNames({ plan, memory }: Pick<Agent, 'plan' | 'memory'>): string[] {
  return [...(plan ? PLAN_TOOLS : []), ...(memory.length > 0 ? MEMORY_TOOLS : [])]
}

/** Which of pawl's own tools a name means; undefined: none that the agent has. */
export function builtInOf({ plan, memory }: Pick<Agent, 'plan' | 'memory'>, name: string): Resolution['builtIn'] {
  if (plan && isPlanTool(name)) return 'plan'
  return memory.length > 0 && isMemoryTool(name) ? 'memory' : undefined
}
