// pawl's own tools in an agent: the workflow answers their calls.
import type { Resolution } from '../session/call-facts.ts'
import { isMemoryTool, MEMORY_TOOLS } from '../session/built-in-tools/memory-tools.ts'
import { OUTPUT_TOOL } from '../session/built-in-tools/output.ts'
import { isPlanTool, PLAN_TOOLS } from '../session/built-in-tools/plan-tools.ts'
import type { Agent } from './agent.ts'
import { memoryDefinitions } from './memory-tools.ts'
import type { ToolDefinition } from './model.ts'
import { PLAN_DEFINITIONS } from './plan-tools.ts'

type HasBuiltIns = Pick<Agent, 'plan' | 'memory' | 'output'>

/** The definitions of pawl's own tools that the agent's model receives. */
export function builtInTools({ plan, memory, output }: HasBuiltIns): ToolDefinition[] {
  return [
    ...(plan ? PLAN_DEFINITIONS : []),
    ...(memory.length > 0 ? memoryDefinitions(memory) : []),
    ...(output ? [output.definition] : []),
  ]
}

/** Their names. */
export function builtInNames({ plan, memory, output }: HasBuiltIns): string[] {
  return [...(plan ? PLAN_TOOLS : []), ...(memory.length > 0 ? MEMORY_TOOLS : []), ...(output ? [OUTPUT_TOOL] : [])]
}

/** The kind of pawl's own tool that the name refers to; undefined if the agent has no such tool. */
export function builtInOf({ plan, memory, output }: HasBuiltIns, name: string): Resolution['builtIn'] {
  if (plan && isPlanTool(name)) return 'plan'
  if (output && name === OUTPUT_TOOL) return 'output'
  return memory.length > 0 && isMemoryTool(name) ? 'memory' : undefined
}
