// Which tools are quick: measured for each executor, because only it knows the services that its bodies call.

/** A body that takes this long is not quick. */
const QUICK_MS = 100
/** How many bodies of a tool must have been quick without exception. */
export const MEASURED = 20

/** The tools of an executor. */
export interface QuickTools {
  /** A body of the tool took this long. */
  took(agent: string, tool: string, ms: number): void
  /** Whether the newest bodies of the tool were all quick. A tool that has not been measured often enough is not quick. */
  isQuick(agent: string, tool: string): boolean
}

/** Starts without measurements: a tool that is slow, or kills its executor, shows it in calls of its own. */
export function measureTools(): QuickTools {
  /** How many bodies in a row were quick. */
  const quick = new Map<string, number>()
  const keyOf = (agent: string, tool: string): string => `${agent} ${tool}`

  return {
    took(agent, tool, ms) {
      const key = keyOf(agent, tool)
      quick.set(key, ms < QUICK_MS ? (quick.get(key) ?? 0) + 1 : 0)
    },
    isQuick: (agent, tool) => (quick.get(keyOf(agent, tool)) ?? 0) >= MEASURED,
  }
}

/** No tool is quick. */
export const NO_QUICK_TOOLS: QuickTools = { took: () => undefined, isQuick: () => false }
