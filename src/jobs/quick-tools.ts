// Measures which tools are quick. Each executor has its own measurements, because the tools' services belong to it.

/** A body that takes this long or longer is not quick. */
const QUICK_MS = 100
/** How many bodies of a tool in a row must have been quick. */
export const MEASURED = 20

export interface QuickTools {
  /** A body of the tool took this long. */
  took(agent: string, tool: string, ms: number): void
  /** Whether the newest bodies of the tool were all quick. A tool that has not been measured often enough is not quick. */
  isQuick(agent: string, tool: string): boolean
}

/** Starts without measurements, so that a tool that is slow or kills its executor does so in calls of its own first. */
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

/** For executors that never treat a tool as quick. */
export const NO_QUICK_TOOLS: QuickTools = { took: () => undefined, isQuick: () => false }
